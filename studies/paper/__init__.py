"""The figures of the TensorFlow paper about many machines, run as actors in a simulated world.

Source: Abadi et al., "TensorFlow: A System for Large-Scale Machine Learning", OSDI 2016, section 6.
"""
