package scheduler

import _ "embed"

//go:embed workflow.schema.json
var workflowSchema []byte

// JSONSchema returns the JSON Schema (draft 2020-12) of the definition language, for editors. It describes the shape
// only; Parse checks the rest.
func JSONSchema() []byte { return append([]byte(nil), workflowSchema...) }

//go:embed schedule.schema.json
var scheduleSchema []byte

// ScheduleSchema returns the JSON Schema (draft 2020-12) of a schedule, for editors. It describes the shape only; ParseSchedule checks the rest.
func ScheduleSchema() []byte { return append([]byte(nil), scheduleSchema...) }
