"""What a log reads, told from SQL, pandas code and calls of tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forewarn.monitors.programs.columns import columns_of
from forewarn.monitors.programs.columns_found import UnreadLog

TABLES = {
    "patient": ["patientunitstayid", "uniquepid", "age", "gender", "hospitaladmittime"],
    "medication": ["patientunitstayid", "drugname", "routeadmin", "drugstarttime"],
    "lab": ["patientunitstayid", "labname", "labresult", "labresulttime"],
}
STAY = "patientunitstayid"


@pytest.mark.needs("sqlglot")
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT DISTINCT medication.routeadmin FROM medication WHERE"
         " medication.drugname = 'clonidine'",
         {"medication": ["drugname", "routeadmin"]}),
        ("select routeadmin from medication m where m.drugname like 'a%' order by"
         " drugstarttime desc limit 1",
         {"medication": ["drugname", "drugstarttime", "routeadmin"]}),
        ("SELECT lab.labresult FROM lab WHERE lab.patientunitstayid IN (SELECT"
         " patient.patientunitstayid FROM patient WHERE patient.uniquepid = '1')",
         {"lab": ["labresult", STAY], "patient": [STAY, "uniquepid"]}),
        ("SELECT p.age, drugname FROM patient p JOIN medication USING"
         " (patientunitstayid)",
         {"medication": ["drugname", STAY], "patient": ["age", STAY]}),
        ("WITH t AS (SELECT uniquepid AS u, age FROM patient) SELECT u FROM t WHERE"
         " t.age > 3", {"patient": ["age", "uniquepid"]}),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT patient.uniquepid FROM patient) AS a",
         {"patient": ["uniquepid"]}),
        ("SELECT * FROM lab",
         {"lab": ["labname", "labresult", "labresulttime", STAY]}),
        ("SELECT m.* FROM medication m, patient",
         {"medication": ["drugname", "drugstarttime", STAY, "routeadmin"],
          "patient": []}),
        ("SELECT (SELECT t1.labresult FROM lab AS t1 WHERE t1.patientunitstayid ="
         " p.patientunitstayid) - 3 FROM patient p",
         {"lab": ["labresult", STAY], "patient": [STAY]}),
        ("SELECT t1.drugname FROM (SELECT medication.drugname, DENSE_RANK() OVER (ORDER"
         " BY COUNT(*) DESC) AS c1 FROM medication WHERE STRFTIME('%Y',"
         " medication.drugstarttime) >= '2104' GROUP BY medication.drugname) AS t1"
         " WHERE t1.c1 <= 5", {"medication": ["drugname", "drugstarttime"]}),
        ("SELECT c1 FROM (SELECT age AS c1 FROM patient) t, lab WHERE c1 > labresult",
         {"lab": ["labresult"], "patient": ["age"]}),
        ("SELECT labresult FROM lab WHERE EXISTS (SELECT uniquepid FROM patient WHERE"
         " labname = 'hct')",
         {"lab": ["labname", "labresult"], "patient": ["uniquepid"]}),
        ("SELECT COUNT(*) AS c, gender FROM patient GROUP BY gender ORDER BY c DESC",
         {"patient": ["gender"]}),
        ("SELECT MAX(T1.labresult) - MIN(T1.labresult) FROM LAB AS T1 WHERE"
         " T1.labresulttime BETWEEN datetime('now', '-1 day') AND"
         " datetime(T1.labresulttime, 'start of month')",
         {"lab": ["labresult", "labresulttime"]}),
        ("SELECT age FROM patient UNION SELECT labname FROM lab",
         {"lab": ["labname"], "patient": ["age"]}),
        ("SELECT password FROM patient", {"patient": ["password"]}),
        ("DELETE FROM lab WHERE labname = 'x'", {"lab": ["labname"]}),
        ("select age from patient; select labname from lab",
         {"lab": ["labname"], "patient": ["age"]}),
    ],
)  # fmt: skip
def test_columns_of_sql(sql: str, expected: dict[str, list[str]]) -> None:
    assert columns_of([sql], TABLES) == {k: sorted(v) for k, v in expected.items()}


@pytest.mark.needs("sqlglot")
def test_of_a_table_that_nobody_knows_everything_is_named() -> None:
    assert columns_of(["SELECT * FROM secret"]) == {"secret": ["*"]}
    assert columns_of(["SELECT a FROM x, y"]) == {"x": ["a"], "y": ["a"]}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("db = LoadDB('medication')\nrows = FilterDB(db, 'drugname=clonidine')\n"
         "answer = GetValue(rows, 'routeadmin')",
         {"medication": ["drugname", "routeadmin"]}),
        ("p = LoadDB('patient')\nf = FilterDB(p, 'uniquepid={}||age>3'.format(x))\n"
         "s = GetValue(f, 'patientunitstayid')\nlab = LoadDB('lab')\n"
         "r = FilterDB(lab, f'patientunitstayid={s}||labname=hct')\n"
         "a = GetValue(r, 'labresult, max')",
         {"patient": ["age", STAY, "uniquepid"],
          "lab": ["labname", "labresult", STAY]}),
        ("medication[medication['drugname'] == 'clonidine']['routeadmin'].unique()",
         {"medication": ["drugname", "routeadmin"]}),
        ("import pandas as pd\nm = pd.read_csv('data/medication.csv')\n"
         "m.loc[m.drugname == 'age', 'routeadmin'].max()",
         {"medication": ["drugname", "routeadmin"]}),
        ("both = patient.merge(lab, on='patientunitstayid')\n"
         "both[both.age > 60].groupby('labname')['labresult'].mean()",
         {"patient": ["age", STAY], "lab": ["labname", "labresult", STAY]}),
        ("lab.query(\"labname == 'hct' and labresult > 3\")[['labresulttime']]",
         {"lab": ["labname", "labresult", "labresulttime"]}),
        ("db['patient'].sort_values('age')['gender'].iloc[0]",
         {"patient": ["age", "gender"]}),
    ],
)  # fmt: skip
def test_columns_of_code(code: str, expected: dict[str, list[str]]) -> None:
    assert columns_of([code], TABLES) == {k: sorted(v) for k, v in expected.items()}
    lines = code.split("\n")
    assert columns_of(lines, TABLES) == columns_of([code], TABLES)


HOSPITAL = {
    "patients": ["patient_id", "name", "gender", "dob", "ssn", "ward_id"],
    "visits": ["visit_id", "patient_id", "admitted_at", "discharged_at", "reason",
               "doctor_id"],
    "labs": ["lab_id", "visit_id", "test", "result", "unit", "taken_at"],
    "meds": ["med_id", "visit_id", "drug", "dose", "route", "started_at"],
    "bills": ["bill_id", "visit_id", "amount", "paid", "insurer"],
    "doctors": ["doctor_id", "name", "specialty", "salary"],
    "wards": ["ward_id", "label", "beds"],
}  # fmt: skip


@pytest.mark.needs("sqlglot")
def test_columns_of_queries_in_many_styles() -> None:
    lines = Path(__file__).with_name("queries.jsonl").read_text("utf-8").splitlines()
    for case in map(json.loads, lines):
        assert columns_of(case["log"], HOSPITAL) == case["reads"], case["log"]


@pytest.mark.parametrize(
    "code",
    [
        "x = 'patients'\n" + "x = x + x\n" * 40,
        "def f(d):\n    f(d); f(d); f(d); f(d)\nf(patients)",
        "patients" + "[0]" * 20_000,
    ],
)
def test_code_cannot_make_its_reading_long(code: str) -> None:
    with pytest.raises(UnreadLog):
        columns_of([code], HOSPITAL)


@pytest.mark.parametrize("text", ["I looked at the drugs.", "", "x = 3", "select ("])
def test_a_log_that_says_nothing_is_unread(text: str) -> None:
    with pytest.raises(UnreadLog):
        columns_of([text], TABLES)
