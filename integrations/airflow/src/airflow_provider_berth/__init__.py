"""Berth for Airflow: tasks say how much GPU memory they want, wait without holding a worker, run on one device."""

__version__ = "0.1.0"
