"""The controller of batch/v1 Jobs: ``job_controller`` reconciles, ``job_plan`` decides, the rest are its parts."""
