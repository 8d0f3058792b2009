package yamltree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// Scalar returns the value of a scalar node: text, nil, a boolean, or a json.Number as it was written.
func Scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return n.Value, nil
	case "!!null":
		return nil, nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), nil
	case "!!int", "!!float":
		return number(n.Value)
	}
	return nil, fmt.Errorf("the tag %s is not supported: JSON has no such type", n.ShortTag())
}

// number keeps the digits of a JSON number, and converts the other notations of YAML.
func number(s string) (json.Number, error) {
	if json.Valid([]byte(s)) {
		return json.Number(s), nil
	}
	if len(s) > 1 && s[0] == '0' && s[1] >= '0' && s[1] <= '9' {
		return "", fmt.Errorf("%s begins with 0, which YAML reads in two ways: quote it, or leave the 0 out", s)
	}
	if i, err := strconv.ParseInt(s, 0, 64); err == nil {
		return json.Number(strconv.FormatInt(i, 10)), nil
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", fmt.Errorf("%s is not a JSON number", s)
	}
	b, err := json.Marshal(f)
	return json.Number(b), err
}

// Syntax returns the place and the message of an error of the YAML parser about a text.
func Syntax(text []byte, err error) (Place, string) {
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return Place{1, 1}, strings.TrimPrefix(err.Error(), "yaml: ")
	}
	message := strings.TrimPrefix(e.Message, "yaml: ")
	if e.ContextMsg != "" {
		message = e.ContextMsg + ": " + message
	}
	at := Place{max(e.Mark.Line, 1), max(e.Mark.Column, 1)}
	if tabIndents(text, at) {
		message = "YAML does not allow a tab in the indentation: indent with spaces"
	}
	return at, message
}

// tabIndents says whether at a place of a text there is a tab with nothing but blanks before it in its line.
func tabIndents(text []byte, at Place) bool {
	line := 1
	for s := range bytes.Lines(text) {
		if line == at.Line {
			indent := s[:len(s)-len(bytes.TrimLeft(s, " \t"))]
			return at.Column <= len(indent) && indent[at.Column-1] == '\t'
		}
		line++
	}
	return false
}
