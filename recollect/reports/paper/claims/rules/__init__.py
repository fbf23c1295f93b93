"""The rules of the claims, by subject: functions of a group that return checks of its cells."""
