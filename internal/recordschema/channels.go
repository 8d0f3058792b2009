package recordschema

import (
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// A channel is a topic, or the topics of all agents.
type channel struct {
	// name is its name in the document, and topic that of the topic. Replies have no fixed topic.
	name, topic string
	about       string
	// key describes the key of its records.
	key string
	// headers are those of its records, unless a message says otherwise.
	headers string
	// messages are the names of schemas. others are the messages that have none.
	messages []string
	others   []other
}

// An other is a message whose value has no schema here.
type other struct {
	name, about, headers string
	// types are the ce_types, if it has its own.
	types   []string
	payload object
}

const (
	keyOfTask   = "The task ID. Its murmur2 hash, as Kafka's Java client computes it, chooses the partition."
	agentOfWork = "{agent}"
)

// typed are messages that are recognised by their ce_type, in topics in which other records need none.
var typed = map[string]string{
	"Request": "RequestHeaders", "ScheduleRequest": "RequestHeaders", "LimitRequest": "RequestHeaders",
	"PermitMessage": "Headers", "ChildMessage": "Headers", "ChildAnswer": "Headers", "TaskEnd": "Headers",
}

// channelsOf returns the topics of a namespace.
func channelsOf(namespace string) []channel {
	topics := kafka.Topics{Namespace: namespace}
	letter := func(in events.Input) []other {
		return []other{{"DeadLetterOf" + upper(string(in)), "An input of " + topics.Input(in) + " that was rejected, with its key, value and headers, if they fit.", "DeadLetterHeaders", nil, object{"description": "The value of the input, unchanged, or the beginning of it."}}}
	}
	facts := slices.DeleteFunc(events.Names(), func(n events.Name) bool { return n == events.NameNamespaceCreated })
	return []channel{
		{name: "submissions", topic: topics.Submissions(), headers: "InputHeaders", key: keyOfTask,
			about:    "Tasks to accept, and the requests cancel and signal. With acks=all, each submission leads to a task, a dead letter or a repeat.",
			messages: []string{"Submission", "Request", "ChildMessage"}},
		{name: "reports", topic: topics.Reports(), headers: "InputHeaders", key: keyOfTask + " Of a request about a schedule it is schedule/<name>, and of one about a limit the name of the limit.",
			about:    "What agents report, what operators request, and what owners of partitions say to each other.",
			messages: []string{"Report", "Request", "ScheduleRequest", "LimitRequest", "PermitMessage", "ChildAnswer", "TaskEnd"}},
		{name: "events", topic: topics.Events(), headers: "FactHeaders", key: "The task ID; none in a fact about the partition.",
			about:    "The facts: the system of record. Only the owner of a partition writes it. Some records are void: read it by the rule under \"Reading the log\" in events/FORMAT.md, and stop at an accepted record of a kind that you do not know.",
			messages: names(facts)},
		{name: "work", topic: topics.Work(agentOfWork), headers: "Headers", key: "The task ID.",
			about: "The work for an agent. A request may come twice.", messages: []string{"Work", "Stop"}},
		{name: "replies", headers: "ReplyHeaders", key: "The reply_key of the submission, by default the task ID.",
			about: "The states of a task, in the topic that its submission names as reply_to. A reply may come twice.", messages: []string{"Reply"}},
		{name: "presence", topic: topics.Presence(), headers: "Headers", key: "<kind>/<instance>. A record without a value says that the instance or node left.",
			about: "The heartbeats of agents, one a second, and of nodes.", messages: []string{"Presence"}},
		{name: "alerts", topic: topics.Alerts(), headers: "Headers", key: "The task ID.", about: "What an operator must see.", messages: []string{"Alert"}},
		{name: "deadSubmissions", topic: topics.DeadSubmissions(), headers: "DeadLetterHeaders", key: "That of the input.", about: "Rejected records of the submissions.", others: letter(events.Submissions)},
		{name: "deadReports", topic: topics.DeadReports(), headers: "DeadLetterHeaders", key: "That of the input.", about: "Rejected records of the reports.", others: letter(events.Reports)},
		{name: "definitions", topic: topics.Definitions(), headers: "Headers",
			key:   "Such as <workflow>/<content hash> of a definition, settings, schedule/<name>. The latest record of a key counts.",
			about: "The workflows, and the other records that belong to the namespace. The commands of sagalog write this topic.",
			messages: []string{"NamespaceCreated", "Copying", "SettingsChange", "AcceptedLoss", "AgentPause", "AlertAcknowledgement", "DeadLetterMark",
				"Job", "JobProgress", "JobStop", "LimitDefinition", "ScheduleDefinition"},
			others: []other{
				{"Definition", "A version of a workflow. sagalog generate schema definition prints the schema of what people write.", "DefinitionHeaders", []string{events.TypeDefinition}, object{"type": "object"}},
				{"Closing", "The namespace is closed or, if over is true, open again.", "Headers", []string{events.TypePrefix + string(events.NameNamespaceClosed)}, object{"$ref": "#/components/schemas/NamespaceClosed"}},
				{"Omitted", "Takes the place of a record that was not copied. The value is empty.", "Headers", []string{events.TypeOmitted}, object{"type": "object"}},
				{"KeysMade", "Says that the topic of keys has had a key. The value is empty.", "Headers", []string{events.TypeKeysMade}, object{"type": "object"}},
			}},
		{name: "keys", topic: topics.Keys(), headers: "KeyHeaders", key: "key/<ID> or erased/<ID>.",
			about: "The data keys of sealed values. Only a namespace that seals values has this topic.", messages: []string{"DataKey", "ErasedKey"}},
	}
}

// An operation is what a program beside Sagalog does.
type operation struct {
	name, action, channel, about string
	messages                     []string
	// group is the consumer group, where it matters.
	group string
	reply *replied
}

type replied struct {
	Address  *location `json:"address,omitempty"`
	Channel  pointer   `json:"channel"`
	Messages []pointer `json:"messages,omitempty"`
}

type location struct {
	Description string `json:"description"`
	Location    string `json:"location"`
}

func operationsOf(namespace string) []operation {
	facts := slices.DeleteFunc(events.Names(), func(n events.Name) bool { return n == events.NameNamespaceCreated })
	return []operation{
		{name: "submitTask", action: "send", channel: "submissions", about: "A producer submits a task.", messages: []string{"Submission"},
			reply: &replied{Address: &location{"The topic that the submission names, if it names one.", "$message.payload#/reply_to"}, Channel: to("channels", "replies")}},
		{name: "cancelOrSignal", action: "send", channel: "submissions", about: "A producer cancels a task or sends it a signal. The ce_type is that of the verb.", messages: []string{"Request"}},
		{name: "receiveReplies", action: "receive", channel: "replies", about: "A producer learns what becomes of its tasks.", messages: []string{"Reply"}},
		{name: "receiveWork", action: "receive", channel: "work", about: "An agent takes work, and reports how it ended.", messages: []string{"Work", "Stop"},
			group: kafka.Groups{Namespace: namespace}.Agents("<agent>"),
			reply: &replied{Channel: to("channels", "reports"), Messages: []pointer{to("channels", "reports", "messages", "Report")}}},
		{name: "report", action: "send", channel: "reports", about: "An agent reports an outcome or progress, to the partition home of the request.", messages: []string{"Report"}},
		{name: "sendHeartbeat", action: "send", channel: "presence", about: "An instance of an agent says each second that it lives and what it offers.", messages: []string{"Presence"}},
		{name: "request", action: "send", channel: "reports", about: "An operator's tool asks something of a task, a schedule or a limit. The ce_type says what.", messages: []string{"Request", "ScheduleRequest", "LimitRequest"}},
		{name: "receiveAlerts", action: "receive", channel: "alerts", about: "An operator's tool reads alerts.", messages: []string{"Alert"}},
		{name: "receiveDeadSubmissions", action: "receive", channel: "deadSubmissions", about: "An operator's tool reads rejected submissions.", messages: []string{"DeadLetterOfSubmissions"}},
		{name: "receiveDeadReports", action: "receive", channel: "deadReports", about: "An operator's tool reads rejected reports and requests.", messages: []string{"DeadLetterOfReports"}},
		{name: "readFacts", action: "receive", channel: "events", about: "An analyst reads the history of all tasks.", messages: names(facts)},
		{name: "readDefinitions", action: "receive", channel: "definitions", about: "An analyst reads the versions of workflows."},
		{name: "readPresence", action: "receive", channel: "presence", about: "An operator's tool sees which agents and nodes live.", messages: []string{"Presence"}},
		{name: "readKeys", action: "receive", channel: "keys", about: "A program that may open sealed values reads their keys.", messages: []string{"DataKey", "ErasedKey"}},
	}
}
