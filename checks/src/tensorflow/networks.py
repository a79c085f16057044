"""Build the five networks of D12.6 section 7.3, with random weights: 1000 classes, colour images of published size."""

from __future__ import annotations

import keras
from keras import layers

CLASSES = 1000
#: Edge of the images in pixels, as published with each network.
SIZES = {"AlexNet": 227, "GoogLeNet": 224, "InceptionV3": 299, "ResNet-50": 224, "VGG16": 224}


def convolution(inputs, filters: int, kernel: int, strides: int = 1, padding: str = "same"):
    """Return a convolution and its rectifier."""
    return layers.Conv2D(filters, kernel, strides, padding, activation="relu", kernel_initializer="he_normal")(inputs)


def alexnet(inputs):
    """Return AlexNet, one tower (Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014)."""
    features = convolution(inputs, 64, 11, 4, "valid")
    features = layers.MaxPooling2D(3, 2)(features)
    features = convolution(features, 192, 5)
    features = layers.MaxPooling2D(3, 2)(features)
    for filters in (384, 256, 256):
        features = convolution(features, filters, 3)
    features = layers.Flatten()(layers.MaxPooling2D(3, 2)(features))
    for _ in range(2):
        features = layers.Dense(4096, activation="relu", kernel_initializer="he_normal")(features)
        features = layers.Dropout(0.5)(features)
    return features


def inception(inputs, ones: int, reduced3: int, threes: int, reduced5: int, fives: int, pooled: int):
    """Return one inception module: four branches side by side."""
    pool = layers.MaxPooling2D(3, 1, "same")(inputs)
    return layers.Concatenate()(
        [
            convolution(inputs, ones, 1),
            convolution(convolution(inputs, reduced3, 1), threes, 3),
            convolution(convolution(inputs, reduced5, 1), fives, 5),
            convolution(pool, pooled, 1),
        ]
    )


def googlenet(inputs):
    """Return GoogLeNet without auxiliary classifiers: Szegedy et al., Going deeper with convolutions, 2015, table 1."""
    features = layers.MaxPooling2D(3, 2, "same")(convolution(inputs, 64, 7, 2))
    features = convolution(convolution(features, 64, 1), 192, 3)
    features = layers.MaxPooling2D(3, 2, "same")(features)
    features = inception(features, 64, 96, 128, 16, 32, 32)
    features = inception(features, 128, 128, 192, 32, 96, 64)
    features = layers.MaxPooling2D(3, 2, "same")(features)
    features = inception(features, 192, 96, 208, 16, 48, 64)
    features = inception(features, 160, 112, 224, 24, 64, 64)
    features = inception(features, 128, 128, 256, 24, 64, 64)
    features = inception(features, 112, 144, 288, 32, 64, 64)
    features = inception(features, 256, 160, 320, 32, 128, 128)
    features = layers.MaxPooling2D(3, 2, "same")(features)
    features = inception(features, 256, 160, 320, 32, 128, 128)
    features = inception(features, 384, 192, 384, 48, 128, 128)
    return layers.Dropout(0.4)(layers.GlobalAveragePooling2D()(features))


def network(name: str) -> keras.Model:
    """Return the network of that name, one of :data:`SIZES`; its outputs are logits."""
    shape = (SIZES[name], SIZES[name], 3)
    published = {
        "InceptionV3": keras.applications.InceptionV3,
        "ResNet-50": keras.applications.ResNet50,
        "VGG16": keras.applications.VGG16,
    }
    if name in published:
        return published[name](weights=None, input_shape=shape, classes=CLASSES, classifier_activation=None)
    inputs = layers.Input(shape)
    features = {"AlexNet": alexnet, "GoogLeNet": googlenet}[name](inputs)
    return keras.Model(inputs, layers.Dense(CLASSES)(features))
