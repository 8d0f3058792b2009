package recordschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	yaml "go.yaml.in/yaml/v4"
)

// asyncapi is an AsyncAPI document, with its parts in the usual order.
type asyncapi struct {
	AsyncAPI    string         `json:"asyncapi"`
	ID          string         `json:"id"`
	Info        info           `json:"info"`
	ContentType string         `json:"defaultContentType"`
	Channels    ordered[topic] `json:"channels"`
	Operations  ordered[act]   `json:"operations"`
	Components  components     `json:"components"`
}

type info struct {
	Title       string `json:"title"`
	Version     string `json:"version"`
	Description string `json:"description"`
}

type topic struct {
	// Address is nil if the topic is not fixed.
	Address     *string          `json:"address"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description"`
	Parameters  object           `json:"parameters,omitempty"`
	Messages    ordered[pointer] `json:"messages"`
	Bindings    object           `json:"bindings,omitempty"`
}

type act struct {
	Action   string    `json:"action"`
	Channel  pointer   `json:"channel"`
	Summary  string    `json:"summary"`
	Messages []pointer `json:"messages,omitempty"`
	Reply    *replied  `json:"reply,omitempty"`
	Bindings object    `json:"bindings,omitempty"`
}

type components struct {
	Messages ordered[message] `json:"messages"`
	Schemas  object           `json:"schemas"`
}

type message struct {
	Name     string          `json:"name"`
	Summary  string          `json:"summary"`
	Headers  object          `json:"headers"`
	Payload  json.RawMessage `json:"payload"`
	Bindings object          `json:"bindings"`
}

// pointer refers to another part of the document.
type pointer struct {
	Ref string `json:"$ref"`
}

func to(path ...string) pointer { return pointer{"#/" + strings.Join(path, "/")} }

// binding is the version of the Kafka binding that the document uses.
const binding = "0.5.0"

func inKafka(of object) object {
	of["bindingVersion"] = binding
	return object{"kafka": of}
}

// AsyncAPI returns an AsyncAPI 3.0.0 document of the topics of a namespace, as JSON. Its operations are those of programs beside Sagalog.
func AsyncAPI(namespace string) []byte {
	all := read()
	doc := asyncapi{
		AsyncAPI: "3.0.0", ID: "urn:sagalog:" + namespace, ContentType: "application/json",
		Info: info{"Sagalog, namespace " + namespace, fmt.Sprint(events.FormatVersion), "The Kafka topics of a namespace of Sagalog, for programs that submit tasks, run agents, operate or analyse. " +
			"The operations are those of such programs. The version is that of the wire format, which events/FORMAT.md describes in prose."},
	}
	doc.Components.Schemas = object{}
	for name, d := range all {
		doc.Components.Schemas[name] = json.RawMessage(located(d.raw, namespace))
	}
	for _, set := range headerSets {
		doc.Components.Schemas[set.name] = set.schema()
	}
	for _, c := range channelsOf(namespace) {
		doc.addChannel(&c, all, namespace)
	}
	for _, o := range operationsOf(namespace) {
		doc.Operations.add(o.name, operationOf(&o))
	}
	text, err := plain(doc)
	if err != nil {
		panic("recordschema: " + err.Error()) // it consists of constants
	}
	return indented(text)
}

// located lets a schema refer to others within the document, and names the topics of the namespace.
func located(raw []byte, namespace string) []byte {
	raw = bytes.ReplaceAll(raw, []byte("#/$defs/"), []byte("#/components/schemas/"))
	return bytes.ReplaceAll(raw, []byte("<ns>"), []byte(namespace))
}

// addChannel adds a topic and its messages.
func (doc *asyncapi) addChannel(c *channel, all published, namespace string) {
	t := topic{Description: c.about, Bindings: bindingOf(c.topic, namespace)}
	if c.topic != "" {
		t.Address = &c.topic
	}
	if strings.Contains(c.topic, agentOfWork) {
		t.Parameters = object{"agent": object{"description": "The name of the agent."}}
	}
	for _, name := range c.messages {
		d := all[name]
		headers := c.headers
		if special, ok := typed[name]; ok {
			headers = special
		}
		payload := fmt.Appendf(nil, `{"$ref":"#/components/schemas/%s"}`, name)
		doc.Components.Messages.add(name, message{name, summary(string(located([]byte(d.Description), namespace))), withTypes(headers, d.CETypes), payload, keyed(c.key)})
		t.Messages.add(name, to("components", "messages", name))
	}
	for _, x := range c.others {
		payload, _ := plain(x.payload)
		doc.Components.Messages.add(x.name, message{x.name, x.about, withTypes(x.headers, x.types), payload, keyed(c.key)})
		t.Messages.add(x.name, to("components", "messages", x.name))
	}
	doc.Channels.add(c.name, t)
}

// keyed says what the key of a message is.
func keyed(key string) object {
	return inKafka(object{"key": object{"type": "string", "description": key}})
}

// withTypes returns the schema of the headers of a message that has one of the types.
func withTypes(headers string, types []string) object {
	set := object{"$ref": "#/components/schemas/" + headers}
	if len(types) == 0 {
		return set
	}
	return object{"type": "object", "allOf": []object{set, {"properties": object{events.HeaderType: object{"type": "string", "enum": types}}}}}
}

// bindingOf says how a topic is made, as far as that is the same in all namespaces.
func bindingOf(name, namespace string) object {
	topics := kafka.Topics{Namespace: namespace}
	const any = 2 // a number of partitions that is not 1
	for _, s := range append(topics.Base(any), topics.KeysSpec()) {
		if s.Name != name {
			continue
		}
		of := object{}
		if s.Partitions == 1 {
			of["partitions"] = 1
		}
		if s.Compacted {
			of["topicConfiguration"] = object{"cleanup.policy": []string{"compact"}}
		}
		if len(of) > 0 {
			return inKafka(of)
		}
	}
	return nil
}

func operationOf(o *operation) act {
	a := act{Action: o.action, Channel: to("channels", o.channel), Summary: o.about, Reply: o.reply}
	for _, m := range o.messages {
		a.Messages = append(a.Messages, to("channels", o.channel, "messages", m))
	}
	if o.group != "" {
		a.Bindings = inKafka(object{"groupId": object{"type": "string", "description": o.group}})
	}
	return a
}

// YAML returns a document of JSON as YAML, with its members in the same order.
func YAML(text []byte) ([]byte, error) {
	var n yaml.Node
	if err := yaml.Load(text, &n); err != nil {
		return nil, err
	}
	inBlocks(&n)
	return yaml.Dump(&n)
}

// inBlocks removes the brackets and quotes of JSON where YAML needs none.
func inBlocks(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		inBlocks(c)
	}
}
