package recordschema

import (
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// object is an object of JSON.
type object = map[string]any

// A header is one of a record. All values are texts in UTF-8.
type header struct {
	name, about, pattern string
	required             bool
}

// A headerSet says which headers the records of a kind have.
type headerSet struct {
	name, about string
	list        []header
}

const (
	instantPattern  = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$`
	placePattern    = `^[0-9]+/[0-9]+$`
	positionPattern = `^[0-9]+-.*/[0-9]+$`
	numberPattern   = `^[0-9]+$`
)

// The attributes of CloudEvents 1.0.
var (
	specVersion = header{events.HeaderSpecVersion, "The version of CloudEvents.", `^1\.0$`, true}
	id          = header{events.HeaderID, "Unique to the record. A record that is sent again has the same.", "", true}
	source      = header{events.HeaderSource, "The writer of the record.", "", true}
	kind        = header{events.HeaderType, "The type of the record.", "", true}
	written     = header{events.HeaderTime, "When the record was made, in UTC with milliseconds; of a fact, the time of the decision.", instantPattern, true}
	trace       = header{events.HeaderTraceparent, "The W3C trace context.", "", false}
	subject     = header{events.HeaderSubject, "The task ID, if the key is not the same; of a heartbeat, the instance; of a definition, the workflow.", "", false}
	content     = header{events.HeaderContentType, "Absent in facts, work requests and reports, whose values are JSON too.", "^application/json$", false}
)

// headerSets are all of them. A record that Sagalog writes is a CloudEvent 1.0 in the binary mode of the Kafka binding.
var headerSets = []headerSet{
	{"FactHeaders", "The headers of a fact.", []header{
		{events.HeaderID, "<partition>/<epoch>/<sequence>; <partition>/claim/<id> of a PartitionClaimed.", "^[0-9]+/.+", true},
		specVersion, source, kind, written, trace,
		{events.HeaderCause, "Why the fact was decided, such as s/<partition>/<offset> for a record of the submissions.", "^[srtfd]/", false},
		{events.HeaderCauseID, "The ce_id of the input that caused the fact.", "", false},
		{events.HeaderCauseHash, "The hash of that input.", "^[0-9a-f]{16}$", false},
		{events.HeaderWatermark, "The position up to which the effects of all facts are acknowledged.", positionPattern, false},
	}},
	{"Headers", "The headers of a record that Sagalog writes.", []header{specVersion, id, source, kind, written, trace, subject, content}},
	{"DefinitionHeaders", "The headers of a version of a workflow.", []header{specVersion, id, source, kind, written, trace, subject, content,
		{events.HeaderLevel, "The level that the keys of the definition need; absent for 1.", numberPattern, false},
		{events.HeaderBy, "Who applied it.", "", false},
	}},
	{"InputHeaders", "The headers of a record that other programs may write. All may be absent; then only the value counts. The structured mode is read too: content-type is application/cloudevents+json, and the value is the event.", inputHeaders(false)},
	{"RequestHeaders", "The headers of a record whose ce_type says what it asks for.", inputHeaders(true)},
	{"ReplyHeaders", "The headers of a reply.", []header{specVersion, id, source, kind, written, trace, subject, content,
		{events.HeaderSequence, "Replies to a task sort by it as text. Drop a reply that is not above the last one.", "^[0-9]{8,}-[0-9]{12,}$", true},
	}},
	{"DeadLetterHeaders", "The headers of the rejected input, with these added.", []header{
		{supervisor.DeadTopic, "The topic in which the input was judged.", "", true},
		{supervisor.DeadPartition, "Its partition.", numberPattern, true},
		{supervisor.DeadOffset, "Its offset.", numberPattern, true},
		{supervisor.DeadMessage, "The fault in words, for people.", "", true},
		{supervisor.DeadReason, "One of the reject reasons.", "", true},
		{supervisor.DeadTime, "The time of the InputRejected fact.", instantPattern, true},
		{supervisor.DeadFact, "The ce_id of that fact.", "^[0-9]+/.+", true},
		{events.HeaderCut, "How many bytes the value of the input has, if the letter has only a part of it.", numberPattern, false},
		{events.HeaderLast, "The offset of the last input, if the letter is about several.", numberPattern, false},
	}},
	{"KeyHeaders", "The headers of a record of the topic of keys.", nil},
}

func inputHeaders(typed bool) []header {
	list := []header{specVersion, id, source, kind, written, trace, subject,
		{events.HeaderContentType, "application/json, or application/cloudevents+json for the structured mode.", "", false},
		{events.HeaderDefinition, "Of a submission: the hash of the definition against which it was validated.", "", false},
		{events.HeaderForwardedFrom, "Where the record was found, if an owner forwarded it to its home partition.", placePattern, false},
		{events.HeaderForwardedAt, "When it was forwarded.", instantPattern, false},
	}
	for i := range list {
		list[i].required = typed && list[i].name == events.HeaderType
		if list[i].name == events.HeaderTime {
			list[i].pattern = "" // with any offset and precision
		}
	}
	return list
}

// schema returns the schema of the headers. Unknown headers are allowed.
func (s *headerSet) schema() object {
	required, members := []string{}, object{}
	for _, h := range s.list {
		of := object{"type": "string", "description": h.about}
		if h.pattern != "" {
			of["pattern"] = h.pattern
		}
		if members[h.name] = of; h.required {
			required = append(required, h.name)
		}
	}
	slices.Sort(required)
	all := object{"type": "object", "description": s.about, "properties": members, "additionalProperties": true}
	if len(required) > 0 {
		all["required"] = required
	}
	return all
}
