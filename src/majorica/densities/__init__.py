"""Densities of the sources: super-Gaussian, sub-Gaussian, adaptive, or your own."""

from __future__ import annotations

from majorica.densities.base import Density
from majorica.densities.check import check_density
from majorica.densities.clipped import Clipped, Huber
from majorica.densities.logcosh import LogCosh
from majorica.densities.piecewise import Piecewise
from majorica.densities.student import Student
from majorica.densities.twogaussian import TwoGaussian

__all__ = ["Clipped", "Density", "Huber", "LogCosh", "Piecewise", "Student", "TwoGaussian", "check_density"]
