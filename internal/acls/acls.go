package acls

import (
	"slices"
	"strings"

	"github.com/sagalog/sagalog/internal/kafka"
)

// Role is a kind of process.
type Role string

// The roles. Owner, API and Projector are nodes; a node with several of these roles needs the lines of each. Webhook is what a node with the
// role owner needs beside, if it delivers messages to a receiver, and Sealing what nodes and agents need beside in a namespace whose contents are
// encrypted.
const (
	Owner     Role = "owner"
	API       Role = "api"
	Projector Role = "projector"
	Webhook   Role = "webhook"
	Sealing   Role = "sealing"
	Agent     Role = "agent"
	Producer  Role = "producer"
	Reader    Role = "reader"
	Copier    Role = "copier"
)

// Roles are all roles.
var Roles = []Role{Owner, API, Projector, Webhook, Sealing, Agent, Producer, Reader, Copier}

// Resource is a kind of thing that Kafka guards.
type Resource string

// The resources.
const (
	Topic   Resource = "topic"
	Group   Resource = "group"
	Cluster Resource = "cluster"
)

// The operations, with Kafka's names.
const (
	Read            = "READ"
	Write           = "WRITE"
	Create          = "CREATE"
	Delete          = "DELETE"
	Describe        = "DESCRIBE"
	DescribeConfigs = "DESCRIBE_CONFIGS"
)

// ClusterName is the name of the only resource of the kind Cluster.
const ClusterName = "kafka-cluster"

// Line is one permission.
type Line struct {
	Resource Resource
	Name     string
	// Prefixed says that Name is the beginning of names.
	Prefixed  bool
	Operation string
	// Why says what needs it.
	Why string
	// Optional says that the role does its work without it, except for what Why says.
	Optional bool
}

// Scope is where a role works.
type Scope struct {
	Namespace string
	// Agents are the agents that the role Agent runs; without a name the lines hold for every agent.
	Agents []string
	// Replies are the topics that the setting reply_topics of the namespace allows: names, or beginnings of names that end in a star.
	Replies []string
}

// For returns the lines of some roles, each once and without those that others imply.
func For(s Scope, roles ...Role) []Line {
	var all []Line
	for _, r := range roles {
		all = append(all, of(s, r)...)
	}
	var lines []Line
	for _, l := range all {
		same := func(o Line) bool {
			return o.Resource == l.Resource && o.Name == l.Name && o.Prefixed == l.Prefixed && o.Operation == l.Operation
		}
		if i := slices.IndexFunc(lines, same); i < 0 {
			lines = append(lines, l)
		} else if lines[i].Optional && !l.Optional {
			lines[i] = l
		}
	}
	return slices.DeleteFunc(lines, func(l Line) bool { return l.Operation == Describe && implied(lines, l) })
}

// implied says whether what must be permitted besides a line implies it.
func implied(lines []Line, l Line) bool {
	return slices.ContainsFunc(lines, func(o Line) bool {
		return o.Resource == l.Resource && o.Name == l.Name && o.Prefixed == l.Prefixed && !o.Optional && slices.Contains([]string{Read, Write, Delete}, o.Operation)
	})
}

func of(s Scope, r Role) []Line {
	t := kafka.Topics{Namespace: s.Namespace}
	switch r {
	case Owner:
		return append(append(node(t), owner(t)...), replies(s.Replies)...)
	case API:
		return append(node(t), api(t)...)
	case Projector:
		return node(t)
	case Webhook:
		return webhook(t)
	case Sealing:
		return sealing(t)
	case Agent:
		return agent(t, s.Agents)
	case Producer:
		return []Line{on(t.Submissions(), Write, "submits tasks")}
	case Reader:
		return reader(t)
	case Copier:
		return append(copier(t), replies(s.Replies)...)
	}
	return nil
}

// on is a permission on one topic.
func on(topic, operation, why string) Line {
	return Line{Resource: Topic, Name: topic, Operation: operation, Why: why}
}

// optional makes a permission one that the role can do without.
func (l Line) optional() Line { l.Optional = true; return l }

// every makes a permission one on all names that begin so.
func (l Line) every() Line { l.Prefixed = true; return l }

// node is what every node needs.
func node(t kafka.Topics) []Line {
	var lines []Line
	for _, s := range t.Base(1) {
		lines = append(lines,
			on(s.Name, Describe, "checks at the start that the topic is there"),
			on(s.Name, DescribeConfigs, "checks at the start and hourly that no setting of the topic can lose records"),
			on(s.Name, Create, "the first node of a namespace creates the topic; not needed once it exists"))
	}
	return append(lines,
		on(t.Definitions(), Read, "knows the workflows, limits, schedules and settings"),
		on(t.Definitions(), Write, "records the namespace if it is the first node, the settings that it is started with, and workflows, limits and schedules for people"),
		on(t.Events(), Read, "keeps the state of tasks, and knows from the log which node owns a partition"),
		on(t.Presence(), Read, "knows which nodes and agents are alive"),
		on(t.Presence(), Write, "sends its heartbeats"))
}

func owner(t kafka.Topics) []Line {
	g := kafka.Groups(t)
	return []Line{
		{Resource: Group, Name: g.Owners(), Operation: Read, Why: "gets its share of the partitions, and removes silent nodes"},
		on(t.Events(), Write, "appends facts"),
		on(t.Submissions(), Read, "reads submissions"),
		on(t.Submissions(), Write, "sends submissions on that came to another partition than their task's, and those of schedules and child tasks"),
		on(t.Reports(), Read, "reads the reports of agents and the requests of people"),
		on(t.Reports(), Write, "sends requests and reports on to the partition of their task"),
		on(t.DeadSubmissions(), Write, "puts refused submissions aside"),
		on(t.DeadReports(), Write, "puts refused reports aside"),
		on(t.Alerts(), Write, "tells operators what needs them"),
		on(t.Work(""), Write, "asks agents for work").every(),
		on(t.Work(""), Create, "creates the topic of an agent when a step first waits for it; not needed if agents or people create it").every().optional(),
		on(t.Work(""), Read, "deletes requests for work that are over, of agents that read without a group").every().optional(),
		on(t.Work(""), Delete, "deletes requests for work that are done").every().optional(),
		on(t.Submissions(), Delete, "deletes submissions that nobody needs any more").optional(),
		on(t.Reports(), Delete, "deletes reports that nobody needs any more").optional(),
		on(t.Events(), Delete, "cuts facts that were carried forward").optional(),
		Line{Resource: Group, Name: g.Agents(""), Operation: Read, Why: "removes silent instances of agents, so that others get their work sooner"}.every().optional(),
		Line{Resource: Group, Name: g.Agents(""), Operation: Describe, Why: "knows which requests for work are done, to delete them"}.every().optional(),
		Line{Resource: Cluster, Name: ClusterName, Operation: Describe, Why: "shows the sizes of the topics (metric sagalog_log_bytes)"}.optional(),
	}
}

// replies are for the topics outside of the namespace in which submitters ask for replies.
func replies(allowed []string) (lines []Line) {
	for _, name := range allowed {
		l := on(strings.TrimSuffix(name, "*"), Write, "sends the replies that submitters ask for")
		l.Prefixed = strings.HasSuffix(name, "*")
		lines = append(lines, l)
	}
	return lines
}

func api(t kafka.Topics) []Line {
	return []Line{
		on(t.Submissions(), Write, "appends submissions that come by HTTP"),
		on(t.Reports(), Write, "appends requests of people, and reports of services that call back"),
		on(t.DeadSubmissions(), Read, "lists refused submissions"),
		on(t.DeadReports(), Read, "lists refused reports"),
		on(t.Alerts(), Read, "lists alerts"),
		on(t.Work(""), Create, "asks whether the topics of the agents of a new workflow could be created, before it accepts the workflow").every(),
	}
}

func sealing(t kafka.Topics) []Line {
	return []Line{
		on(t.Keys(), Read, "reads the keys by which contents are encrypted"),
		on(t.Keys(), Write, "makes the keys of new subjects: nodes with the role api, and whoever erases or replaces keys").optional(),
		on(t.Keys(), Create, "the first node that encrypts creates the topic; not needed once it exists").optional(),
	}
}

func webhook(t kafka.Topics) []Line {
	g := kafka.Groups(t)
	return []Line{
		{Resource: Group, Name: g.Webhook(), Operation: Read, Why: "stores how far messages were delivered"},
		on(t.Events(), Read, "tells the receiver of ended tasks"),
		on(t.Alerts(), Read, "tells the receiver of alerts"),
	}
}

// agent is what a process that runs agents needs, in any language.
func agent(t kafka.Topics, agents []string) []Line {
	g := kafka.Groups(t)
	lines := []Line{
		on(t.Submissions(), Describe, "learns the number of partitions"),
		on(t.Reports(), Write, "reports results"),
		on(t.Presence(), Write, "sends its heartbeats"),
		on(t.Presence(), Read, "if the group has fenced it: finds out whether another process has its name, instead of ending").optional(),
	}
	each := func(name string, shape func(Line) Line) []Line {
		return []Line{
			shape(on(t.Work(name), Read, "reads requests for work, and commits how far it has read")),
			shape(on(t.Work(name), Create, "creates the topic of the agent; not needed once it exists").optional()),
			shape(Line{Resource: Group, Name: g.Agents(name), Operation: Read, Why: "shares the requests with the other instances of the agent"}),
		}
	}
	if len(agents) == 0 {
		return append(lines, each("", Line.every)...)
	}
	for _, name := range agents {
		lines = append(lines, each(name, func(l Line) Line { return l })...)
	}
	return lines
}

// reader is what `sagalog verify`, `sagalog task history --from-log` and programs that only read the log need.
func reader(t kafka.Topics) []Line {
	return []Line{
		on(t.Definitions(), Read, "knows the namespace and the workflows"),
		on(t.Events(), Read, "reads facts"),
		on(t.Submissions(), Read, "compares the facts with what was submitted"),
		on(t.Reports(), Read, "compares the facts with what was reported"),
		on(t.DeadSubmissions(), Read, "compares the facts with what was refused"),
		on(t.DeadReports(), Read, "compares the facts with what was refused"),
		on(t.Work(""), Read, "compares the facts with what was asked of agents").every(),
	}
}

// copier is what `sagalog namespace copy` needs, of the old namespace and of the new one alike.
func copier(t kafka.Topics) []Line {
	lines := []Line{
		on(t.Definitions(), Read, "copies the workflows, limits, schedules and settings"),
		on(t.Events(), Read, "copies the state of tasks"),
		on(t.Submissions(), Read, "copies submissions that nobody has judged"),
		on(t.Reports(), Read, "copies reports that nobody has judged"),
		on(t.Presence(), Read, "refuses to copy while nodes are alive"),
		on(t.Definitions(), Write, "closes the old namespace, and writes the definitions of the new one"),
		on(t.Events(), Write, "closes the partitions of the old namespace, and writes the state into the new ones"),
		on(t.Submissions(), Write, "writes the copied submissions"),
		on(t.Reports(), Write, "writes the copied reports"),
		on(t.DeadSubmissions(), Write, "puts refused submissions aside that were not yet"),
		on(t.DeadReports(), Write, "puts refused reports aside that were not yet"),
		on(t.Alerts(), Write, "sends alerts that were not sent"),
		on(t.Keys(), Read, "copies the keys of encrypted content; not needed if nothing is encrypted").optional(),
		on(t.Keys(), Write, "copies the keys of encrypted content; not needed if nothing is encrypted").optional(),
		on(t.Keys(), Create, "creates the topic of keys of the new namespace; not needed if nothing is encrypted").optional(),
		on(t.Work(""), Write, "asks agents again for the work under way").every(),
		on(t.Work(""), Create, "creates the topics of the agents that have work under way").every(),
	}
	for _, s := range t.Base(1) {
		lines = append(lines, on(s.Name, Describe, "looks whether the topic holds records"), on(s.Name, Create, "creates the topics of the new namespace; not needed of the old one"))
	}
	return lines
}
