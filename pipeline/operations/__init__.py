"""What operators see of corpora: plain functions that read stores, for the pages in Airflow and the command line."""
