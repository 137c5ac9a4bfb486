#!/usr/bin/env python3
"""make_log_seeds.py FOLDER: an RMM log and two databases of Nsight Systems, small, for tests/fuzz/fuzz_snapshot."""
import os
import pathlib
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../unit/exchange"))
sys.dont_write_bytecode = True
import check_logs

folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
(folder / "rmm.csv").write_text("Thread,Time,Action,Pointer,Size,Stream\n1,23:59:59.9,allocate,0x100,256,0x2\n"
                                "2,00:00:02.1,free,0x100,256,0x2\n1,00:00:03.1,allocate failure,(nil),1024,0x2\n")
for name, schema in (("new", check_logs.NEW), ("old", check_logs.OLD)):
    path = folder / f"{name}.sqlite"
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.executescript("PRAGMA page_size = 512;" + schema)
    case = check_logs.Nsys("test_everything")
    for number in range(6):
        case.put(db, number * 10, number << 12, 100 + number, correlation=number, kind=number)
    case.put(db, 90, 1 << 12, 101, free=True)
    thread = check_logs.pid_of(check_logs.PID) | 7
    db.execute("INSERT INTO StringIds VALUES (1, 'x')")
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 0, ?, 1, 1, 0, 9)", (thread,))
    db.execute("INSERT INTO CUDA_CALLCHAINS VALUES (9, 1, 1, 0, 0, 0)")
    db.execute("INSERT INTO NVTX_EVENTS VALUES (5, 50, 59, 'r', ?, NULL)", (thread,))
    db.commit()
    db.close()
