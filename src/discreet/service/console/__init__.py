"""The web console: pages rendered here from the same functions as the API, and scripts that call it. Nothing is fetched
from elsewhere.
"""
