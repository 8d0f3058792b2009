package archtest

import (
	"slices"
	"strings"
)

// star says, by folder, which of our packages each package may import. A package without a row may import none of them,
// so a new package needs a row first.
var star = map[string][]string{
	"events": {"internal/jsontext"}, // the centre: everything reads facts, so facts depend only on JSON text

	"projector":  {"events"},
	"supervisor": {"events", "internal/pause"},
	"scheduler":  {"events", "internal/cron", "internal/exprlang", "internal/yamltree"}, // exprlang: conditions and mappings are planned where the DAG is
	"agent":      {"events", "agent/transport", "agent/internal/offsets", "internal/pause", "internal/repeats", "internal/traceparent"},

	"agent/transport":        {"events"},                                                                                               // the interfaces between an agent and the broker
	"agent/internal/offsets": {"agent/transport"},                                                                                      // computes the positions that agents commit
	"agent/httpagent":        {"agent", "events", "internal/agentfile", "internal/callback", "internal/exprlang", "internal/yamltree"}, // the path, headers and body of an HTTP request are expressions

	"agent/execagent": {"agent", "events", "internal/agentfile", "internal/exprlang"}, // the arguments of a command are expressions

	"internal/acls":   {"internal/kafka"},                                    // names of topics and groups
	"internal/access": {"events", "internal/repeats", "internal/secretfile"}, // who may call the API

	"internal/sealing":             {"events", "internal/jsontext", "internal/kafka", "internal/pause", "internal/secretfile"}, // the topic of keys, and the file that wraps them
	"internal/sealing/sealingtest": {"internal/kafka", "internal/kafka/kafkatest", "internal/sealing"},                         // keys for tests

	"internal/callback":   {"events"},                                                    // the tickets that agents sign and the API checks
	"internal/monitoring": nil,                                                           // writes files for Prometheus and Grafana
	"internal/cron":       nil,                                                           // says when something is due, and reads no clock
	"internal/exprlang":   {"events", "internal/jsontext"},                               // the numbers and instants of expressions are those of the wire
	"internal/agentfile":  {"agent", "events", "internal/exprlang", "internal/yamltree"}, // what the files of all kinds of bindings have in common
	"internal/jsontext":   nil,                                                           // JSON text, whatever its meaning
	"internal/yamltree":   nil,                                                           // YAML as JSON values with their places
	"events/internal/gen": nil,                                                           // go generate ./events: reads the source of events, and nothing of ours imports it

	"internal/reference":    {"events", "internal/exprlang"},            // what the pages show is passed in, except for settings and expressions
	"internal/recordschema": {"events", "internal/kafka", "supervisor"}, // names of topics and groups, and of the headers of dead letters

	"internal/kafka":           {"events", "internal/kafka/batch", "internal/pause", "internal/repeats"},
	"internal/kafka/batch":     {"events"},                                                                // bytes and records, below any client
	"internal/kafka/embedded":  {"events", "internal/kafka", "internal/kafka/batch", "internal/pause"},    // it checks the batches of its logs and gives clients its address
	"internal/kafka/work":      {"agent/transport", "events", "internal/kafka", "internal/pause"},         // the agents' interfaces, over Kafka
	"internal/kafka/doctor":    {"events", "internal/acls", "internal/kafka", "internal/pause"},           // it inspects a cluster through the client
	"internal/kafka/kafkatest": {"events", "internal/kafka", "internal/kafka/embedded", "internal/pause"}, // brokers for tests

	// A Go producer needs only one import and one call to submit, so this package uses Kafka directly.
	"scheduler/client": {"events", "internal/kafka", "internal/pause"},

	// Tests of users run a whole engine in their process, and their agents against it, with one call.
	"sagalogtest": {"agent", "events", "internal/kafka", "internal/kafka/embedded", "internal/kafka/work", "internal/node", "scheduler/client"},

	// The example stands for somebody else's services: it shares no code with the engine.
	"internal/dronedelivery": nil,
	"internal/orders":        nil, // its files; the program is cmd/orders
	"docs/examples/gpu":      nil, // likewise, for the examples of the documentation

	// The programs of docs/go.md import what programs of users import.
	"docs/examples/go/agent":    {"agent"},
	"docs/examples/go/producer": {"scheduler/client"},

	// It owns the interfaces through which it asks other packages, and node adapts those packages to
	// them.
	// It asks supervisor.JudgeRequest, which is pure, so that there is one list of reasons for refusing a request.
	"internal/api": {"events", "internal/access", "internal/callback", "internal/jsontext", "internal/pause", "internal/proxy", "internal/repeats", "internal/sentence", "internal/traceparent", "supervisor"},

	// It passes requests to the node that owns their partition: HTTP between nodes, whatever the request is about.
	"internal/proxy":   {"internal/pause"},
	"internal/webhook": nil,             // signs and sends messages, whatever they are about
	"internal/ui":      {"docs", "sdk"}, // it knows only the HTTP API, and serves the documents
	"docs":             nil,             // the documents, embedded
	"sdk":              nil,             // likewise, those of the packages in other languages

	// Wiring: these join the arms of the star. cmd/sagalog would otherwise hold them, and tests could not reach them.
	"internal/node": {"events", "internal/access", "internal/api", "internal/callback", "internal/kafka", "internal/kafka/doctor", "internal/pause", "internal/proxy", "internal/repeats", "internal/sealing", "internal/traceparent", "internal/ui", "internal/webhook", "projector", "scheduler", "supervisor"},
	// It copies a namespace without a node: it folds what it reads, and writes what a node then reads.
	"internal/namespacecopy": {"events", "internal/kafka", "internal/pause", "internal/sealing", "projector", "scheduler", "supervisor"},
	// It copies the past of a namespace, for which it needs a broker in this process, and the fold of a node.
	"internal/past": {"events", "internal/kafka", "internal/kafka/batch", "internal/kafka/embedded", "internal/node", "projector", "scheduler"},
	"internal/cli":  {"events", "internal/access", "internal/api", "internal/dronedelivery", "internal/pause", "internal/sentence", "internal/wftest", "scheduler", "scheduler/client"},

	// It drives the owner that ships, without a shell, a broker or a clock: from a test file, and from recorded tasks.
	"internal/virtualowner": {"events", "scheduler", "supervisor"},
	"internal/wftest":       {"events", "internal/virtualowner", "internal/yamltree", "scheduler", "supervisor"},
	"internal/whatif":       {"events", "internal/verify", "internal/virtualowner", "scheduler", "supervisor"},

	// It is a second opinion on the log. It shares the facts and the fold that it checks, but no code that decides.
	"internal/verify":          {"events"},
	"internal/verify/kafkalog": {"events", "internal/kafka", "internal/kafka/embedded", "internal/pause", "internal/verify", "supervisor"}, // reads the log for verify, which knows no client

	// It reads the log as a stranger would, by the rule of verify, and knows no client.
	"internal/export": {"events", "internal/jsontext", "internal/verify", "projector"},

	"deploy/helm":          nil, // the files of the chart
	"internal/archtest":    nil,
	"internal/pause":       nil, // waiting with a context
	"internal/repeats":     nil, // a readable log
	"internal/secretfile":  nil, // private files, read again when they change
	"internal/sentence":    {"events"},
	"internal/traceparent": nil,
	"internal/traces":      {"agent", "events", "internal/repeats", "internal/traceparent"}, // only programs import it: nothing else knows the library for traces
}

// joins are the folders that may import all our packages except commands: the programs, the simulator (which drives
// the real code of all packages in one process), the tests with real processes, and the benchmark (which is a whole
// system).
var joins = []string{"cmd/sagalog", "cmd/dronedelivery", "cmd/orders", "internal/sim", "internal/e2e", "internal/bench"}

// importExceptions are files that go beyond their package's row.
var importExceptions = map[string]string{
	"agent/dial.go internal/kafka/work": "the broker of that call",
	"agent/dial.go internal/sealing":    "the keys of that call, which lie in Kafka",
	"agent/dial.go internal/kafka":      "a Go program becomes an agent with one call; the rest of agent uses transport.Source and transport.Sink",
}

// theStar: imports of our packages follow star.
func theStar(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		if s.test() || slices.Contains(joins, under(s.dir, joins)) {
			continue
		}
		allowed, known := allowance(s.dir)
		if !known {
			found = append(found, s.at(s.file.Package, s.dir, "the package %s has no row in archtest's star: say what it may import", s.dir))
		}
		for _, i := range s.imports() {
			ours, ok := strings.CutPrefix(i.path, module+"/")
			if !ok || slices.Contains(allowed, ours) {
				continue
			}
			found = append(found, violation{s.path, i.line, s.dir + " must not import " + ours, s.path + " " + ours})
		}
	}
	return except(found, importExceptions)
}

// allowance returns what dir may import. A package for tests, such as agent/agenttest, belongs to the package above it:
// it may import that package, and whatever that package may import.
func allowance(dir string) (allowed []string, known bool) {
	if allowed, known = star[dir]; known {
		return allowed, true
	}
	served, last, ok := cutLast(dir)
	if ok && strings.HasSuffix(last, "test") {
		allowed, known = star[served]
		return append(slices.Clone(allowed), served, "events"), known
	}
	return nil, false
}

func cutLast(dir string) (before, last string, found bool) {
	i := strings.LastIndex(dir, "/")
	if i < 0 {
		return "", dir, false
	}
	return dir[:i], dir[i+1:], true
}

// under returns the folder in dirs that is dir or contains it, or "" if no folder does.
func under(dir string, dirs []string) string {
	for _, d := range dirs {
		if dir == d || strings.HasPrefix(dir, d+"/") {
			return d
		}
	}
	return ""
}

// home says where a library may be imported, tests included.
type home struct {
	library string // this path or any below it
	dirs    []string
	reason  string
}

var homes = []home{
	{"github.com/twmb/franz-go", []string{"internal/kafka", "internal/sim", "internal/e2e"},
		"internal/kafka guards against what the client and the embedded broker do not promise, and another importer would bypass that (the simulator and the process tests act as foreign clients)"},
	{"github.com/cockroachdb/pebble", []string{"projector", "internal/sim"},
		"state and offset go in one batch (INV3), which only one place can promise"},
	{"github.com/parquet-go/parquet-go", []string{"internal/export"},
		"it is before its version 1, so one place should know it"},
	{"github.com/yuin/goldmark", []string{"internal/ui"},
		"documents are rendered in one place, where links and anchors are checked"},
	{"modernc.org/sqlite", []string{"cmd/orders", "internal/e2e"},
		"it would add 8 MB to sagalog, and only the shop of the example has a database (the process tests read what it wrote)"},
}

// theHomes: a library with a home is imported nowhere else.
func theHomes(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		for _, i := range s.imports() {
			for _, h := range homes {
				if (i.path == h.library || strings.HasPrefix(i.path, h.library+"/")) && under(s.dir, h.dirs) == "" {
					found = append(found, violation{s.path, i.line, i.path + " belongs in " + strings.Join(h.dirs, ", ") + ": " + h.reason, s.path})
				}
			}
		}
	}
	return found
}

// theTesting: no code that is linked into a program imports testing, which registers flags and enlarges the binary.
func theTesting(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		if s.test() || s.testPackage() {
			continue
		}
		for _, i := range s.imports() {
			if i.path == "testing" || strings.HasPrefix(i.path, "testing/") || strings.HasPrefix(i.path, "github.com/stretchr/testify") {
				found = append(found, violation{s.path, i.line, i.path + " is for _test.go files and ...test packages", s.path})
			}
		}
	}
	return found
}
