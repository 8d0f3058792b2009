package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// textPattern is the pattern of texts without control characters, as events.CheckTaskID checks IDs.
const textPattern = `^[^\x00-\x1f\x7f-\x9f]+$`

// bodyLimit is the member of a documented body with its limit in bytes, since OpenAPI has none.
const bodyLimit = "x-max-bytes"

// documentLimits writes the limits that handlers check themselves into the OpenAPI document. It uses the same constants, so the
// document cannot disagree with them. JSON Schema counts characters and the handlers count bytes: a text that is longer than
// documented is always refused.
func documentLimits(doc *huma.OpenAPI) {
	for path, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete} {
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				if p.Name == "Idempotency-Key" || p.Name == "id" && p.In == "path" && slices.Contains(op.Tags, "tasks") {
					// The schema is copied, because huma would otherwise check it before the handler, and differently.
					s := *p.Schema
					limitID(&s)
					if p.Name == "Idempotency-Key" {
						s.MinLength, s.Pattern = nil, strings.Replace(textPattern, "+$", "*$", 1) // an empty header counts as absent
					}
					p.Schema = &s
				}
			}
		}
		if path == redrivePath {
			alsoOK(item.Post, "The submission is known: nothing is sent")
		}
		if item.Post != nil && slices.ContainsFunc(events.Verbs(), func(v events.Verb) bool { return path == requestPath(v) }) {
			alsoOK(item.Post, "The task has had a request with this Idempotency-Key: nothing is changed")
		}
	}
	schemas := doc.Components.Schemas.Map()
	limitSubmission(schemas["Submission"].Properties)
	limitID(schemas["PreviewBody"].Properties["id"])
	for _, r := range requestRoutes {
		for name, member := range schemas[r.body.Name()].Properties {
			if member.Type == huma.TypeString && name != "from" { // which must be the name of a step
				limitText(member, maxReason)
			}
		}
	}
	limitText(schemas["SignalBody"].Properties["signal"], events.MaxTaskID)
	for _, name := range []string{"AcceptedLossBody", "AgentPauseBody", "DismissBody", "MarkBody", "JobBody", "JobStopBody"} {
		limitText(schemas[name].Properties["reason"], maxReason)
		limitText(schemas[name].Properties["by"], events.MaxTaskID)
	}
	limitText(schemas["DismissBody"].Properties["task"], events.MaxTaskID)
	acknowledge := schemas["AcknowledgeBody"].Properties
	limitText(acknowledge["note"], maxReason)
	limitText(acknowledge["reason"], maxReason)
	limitText(acknowledge["by"], events.MaxTaskID)
}

func limitID(s *huma.Schema) {
	least := 1
	s.MinLength, s.Pattern = &least, textPattern
	limitText(s, events.MaxTaskID)
}

func limitText(s *huma.Schema, bytes int) {
	s.MaxLength = &bytes
	s.Description += fmt.Sprintf("; at most %d bytes of UTF-8", bytes)
}

func limitSubmission(members map[string]*huma.Schema) {
	number := func(n int) *float64 { f := float64(n); return &f }
	limitID(members["id"])
	members["version"].Minimum = number(1)
	members["priority"].Minimum, members["priority"].Maximum = number(-events.MaxPriority), number(events.MaxPriority)
	one, labels, value := 1, events.MaxLabels, events.MaxLabelValue
	members["workflow"].MinLength = &one
	members["labels"].MaxProperties = &labels
	members["labels"].AdditionalProperties = &huma.Schema{Type: huma.TypeString, MaxLength: &value}
	members["labels"].Extensions = map[string]any{"propertyNames": map[string]any{
		"minLength": 1, "maxLength": events.MaxLabelKey, "pattern": `^[^:\x00]+$`,
	}}
}

// alsoOK documents that an operation that usually answers 202 may answer 200 in the same form.
func alsoOK(op *huma.Operation, description string) {
	known := *op.Responses[fmt.Sprint(http.StatusAccepted)]
	known.Description = description
	op.Responses[fmt.Sprint(http.StatusOK)] = &known
}

// pageLimit is the number of documents on a page. huma checks it.
type pageLimit int

// TransformSchema implements huma.SchemaTransformer.
func (pageLimit) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	least, most := 1.0, float64(MaxLimit)
	s.Minimum, s.Maximum, s.Default = &least, &most, DefaultLimit
	return s
}
