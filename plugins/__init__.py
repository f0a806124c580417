"""The operators' pages inside the Airflow UI."""
