"""Zones whose clocks were changed in unusual ways, and a few ordinary ones."""

from __future__ import annotations

from typing import Final

ODD_ZONES: Final = (
    "Africa/Cairo",  # changes at midnight, with pauses for Ramadan
    "Africa/Casablanca",  # winter time in Ramadan
    "Africa/El_Aaiun",
    "Africa/Johannesburg",
    "Africa/Monrovia",  # 44 minutes and a half until 1972
    "America/Asuncion",  # midnight
    "America/Bogota",
    "America/Caracas",  # half hours in and out
    "America/Havana",  # back over midnight, also on the first of November
    "America/Juneau",  # a day twice in 1867
    "America/Los_Angeles",
    "America/New_York",
    "America/Nuuk",  # on the evening before
    "America/Santiago",
    "America/Sao_Paulo",  # midnight
    "America/St_Johns",  # a minute past midnight, 1987 to 2011
    "America/Toronto",  # half an hour before midnight in 1919
    "Antarctica/Casey",
    "Antarctica/Troll",  # two hours
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Dhaka",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Manila",  # a day skipped in 1844
    "Asia/Pyongyang",
    "Asia/Tehran",  # midnight and half hours
    "Asia/Tokyo",
    "Atlantic/Azores",  # back over midnight
    "Australia/Lord_Howe",  # half an hour
    "Europe/Amsterdam",
    "Europe/Dublin",
    "Europe/Lisbon",
    "Europe/London",
    "Europe/Madrid",
    "Europe/Moscow",
    "Pacific/Apia",  # a day skipped in 2011
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "Pacific/Kwajalein",
    "Pacific/Norfolk",
    "Pacific/Tongatapu",
)
