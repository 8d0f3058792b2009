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

//go:embed limit.schema.json
var limitSchema []byte

// LimitSchema returns the JSON Schema (draft 2020-12) of the object of a named limit, for editors. It describes the shape only; ParseLimit checks the rest.
func LimitSchema() []byte { return append([]byte(nil), limitSchema...) }
