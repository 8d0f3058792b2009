package acls

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Grant is a permission as a list in JSON shows it.
type Grant struct {
	Principal string   `json:"principal"`
	Resource  Resource `json:"resource"`
	Name      string   `json:"name"`
	Pattern   string   `json:"pattern"`
	Operation string   `json:"operation"`
	Optional  bool     `json:"optional,omitempty"`
	Why       string   `json:"why"`
}

// pattern has Kafka's name.
func (l Line) pattern() string {
	if l.Prefixed {
		return "prefixed"
	}
	return "literal"
}

// JSON prints the lines as an array.
func JSON(w io.Writer, principal string, lines []Line) error {
	list := make([]Grant, len(lines))
	for i, l := range lines {
		list[i] = Grant{principal, l.Resource, l.Name, l.pattern(), l.Operation, l.Optional, l.Why}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(list)
}

// resources joins the lines about the same resource, in the order of their first lines.
func resources(lines []Line) (joined [][]Line) {
	at := map[[2]string]int{}
	for _, l := range lines {
		key := [2]string{string(l.Resource), l.Name + " " + l.pattern()}
		i, known := at[key]
		if !known {
			i = len(joined)
			at[key], joined = i, append(joined, nil)
		}
		joined[i] = append(joined[i], l)
	}
	return joined
}

// Commands prints one command of Kafka for each resource. script is the beginning of each, the script for access lists and how it reaches the brokers. A
// comment behind each command says what needs it, and a shell ignores it.
func Commands(w io.Writer, script, principal string, lines []Line) error {
	for _, of := range resources(lines) {
		text := script + " --add --allow-principal " + quoted(principal)
		var why []string
		for _, l := range of {
			text += " --operation " + l.operation()
			part := l.Operation + ": " + l.Why
			if l.Optional {
				part = l.Operation + " (optional): " + l.Why
			}
			why = append(why, part)
		}
		switch l := of[0]; {
		case l.Resource == Cluster:
			text += " --cluster"
		case l.Prefixed:
			text += " --" + string(l.Resource) + " " + l.Name + " --resource-pattern-type prefixed"
		default:
			text += " --" + string(l.Resource) + " " + l.Name
		}
		if _, err := fmt.Fprintf(w, "%s # %s\n", text, strings.Join(why, ". ")); err != nil {
			return err
		}
	}
	return nil
}

// operation is the name of the operation as Kafka's script and Strimzi take it, such as DescribeConfigs.
func (l Line) operation() (name string) {
	for word := range strings.SplitSeq(l.Operation, "_") {
		name += word[:1] + strings.ToLower(word[1:])
	}
	return name
}

// quoted is a word for a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// KafkaUser prints the lines as a KafkaUser of Strimzi, the Kafka operator for Kubernetes.
func KafkaUser(w io.Writer, user string, lines []Line) error {
	text := fmt.Sprintf(`apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaUser
metadata:
  name: %q
  labels:
    strimzi.io/cluster: my-cluster # the name of your Kafka
spec:
  authentication:
    type: scram-sha-512
  authorization:
    type: simple
    acls:
`, user)
	for _, of := range resources(lines) {
		l := of[0]
		text += "      - resource: "
		if l.Resource == Cluster {
			text += "{type: cluster}\n"
		} else {
			text += fmt.Sprintf("{type: %s, name: %s, patternType: %s}\n", l.Resource, l.Name, strings.Replace(l.pattern(), "prefixed", "prefix", 1))
		}
		text += "        operations:\n"
		for _, l := range of {
			text += fmt.Sprintf("          - %s # %s\n", l.operation(), l.Why)
		}
	}
	_, err := io.WriteString(w, text)
	return err
}
