package main

// A root is a type with a schema that somebody outside asks for: the value of a record, or of an entity of the state.
type root struct {
	typ string
	// name is the name of the schema, if it is not that of the type.
	name string
	// types are the constants of the ce_types of its records.
	types []string
	// prefix and words are set if each word of a type leads to another ce_type: the constant of what comes before the word, and the type.
	prefix, words string
	// entity is the kind of entity.
	entity string
	// key is the key of its records, if these have no ce_type.
	key string
}

// elsewhere holds the files of other packages that have types of records, relative to the folder of package events.
var elsewhere = []string{"../supervisor/effect.go", "../internal/sealing/ring.go"}

// recordRoots are the values of the records that FORMAT.md describes, besides facts. A definition is missing: scheduler has its schema.
var recordRoots = []root{
	{typ: "Submission", types: []string{"TypeSubmission"}},
	{typ: "Request", prefix: "typeRequest", words: "Verb"},
	{typ: "Work", types: []string{"TypeWork"}},
	{typ: "Stop", types: []string{"TypeStop"}},
	{typ: "Report", types: []string{"TypeReport"}},
	{typ: "Presence", types: []string{"TypePresence"}},
	{typ: "Reply", prefix: "TypeReplyPrefix", words: "Replied"},
	{typ: "Alert", types: []string{"TypeAlert"}},
	{typ: "ScheduleRequest", types: []string{"TypeSchedulePause", "TypeScheduleResume", "TypeScheduleTrigger"}},
	{typ: "LimitRequest", types: []string{"TypeLimitPause", "TypeLimitResume"}},
	{typ: "PermitMessage", types: []string{"TypePermitAsk", "TypePermitGrant", "TypePermitRelease"}},
	{typ: "ChildMessage", types: []string{"TypeChildAsk", "TypeChildUndo", "TypeChildRelease"}},
	{typ: "ChildAnswer", types: []string{"TypeChildAnswer"}},
	{typ: "TaskEnd", types: []string{"TypeTaskEnd"}},
	{typ: "SettingsChange", types: []string{"TypeSettings"}},
	{typ: "AcceptedLoss", types: []string{"TypeLoss"}},
	{typ: "AgentPause", types: []string{"TypeAgentPause"}},
	{typ: "AlertAcknowledgement", types: []string{"TypeAlertAcknowledgement"}},
	{typ: "DeadLetterMark", types: []string{"TypeDeadLetterMark"}},
	{typ: "Job", types: []string{"TypeJob"}},
	{typ: "JobProgress", types: []string{"TypeJobProgress"}},
	{typ: "JobStop", types: []string{"TypeJobStop"}},
	{typ: "LimitDefinition", types: []string{"TypeLimit"}},
	{typ: "ScheduleDefinition", types: []string{"TypeSchedule"}},
	{typ: "Copying", types: []string{"TypeCopying"}},
	{typ: "keyRecord", name: "DataKey", key: "key/<ID>"},
	{typ: "erasedRecord", name: "ErasedKey", key: "erased/<ID>"},
}

// entityRoots are the entities that CarryBegun and EntityCarried hold.
var entityRoots = []root{
	{typ: "PartitionState", name: "PartitionEntity", entity: "partition"},
	{typ: "Definition", name: "DefinitionEntity", entity: "definition"},
	{typ: "HeldRequest", name: "HeldEntity", entity: "held"},
	{typ: "Task", name: "TaskEntity", entity: "task"},
	{typ: "stepRow", name: "StepEntity", entity: "step"},
	{typ: "requestRow", name: "RequestEntity", entity: "request"},
	{typ: "Limit", name: "LimitEntity", entity: "limit"},
	{typ: "Permit", name: "PermitEntity", entity: "permit"},
	{typ: "Schedule", name: "ScheduleEntity", entity: "schedule"},
}

// roots returns all of them, the facts first.
func (p *pkg) roots() (list []root) {
	for _, c := range p.bodies() {
		list = append(list, root{typ: c.value})
	}
	return append(append(list, recordRoots...), entityRoots...)
}

// isFact says whether the root is the body of a fact.
func (r *root) isFact() bool {
	return len(r.types) == 0 && r.prefix == "" && r.entity == "" && r.key == ""
}

// named returns the name of the schema.
func (r *root) named() string {
	if r.name != "" {
		return r.name
	}
	return r.typ
}

// ceTypes returns the ce_types of its records. The records of keys have none.
func (p *pkg) ceTypes(r *root) (list []string) {
	if r.isFact() {
		return []string{p.text("TypePrefix") + r.typ}
	}
	for _, name := range r.types {
		list = append(list, p.text(name))
	}
	if r.prefix != "" {
		for _, c := range p.words[r.words] {
			list = append(list, p.text(r.prefix)+c.value)
		}
	}
	return list
}
