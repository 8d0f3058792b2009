package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"go.yaml.in/yaml/v4"
)

// Applied is the engine's answer to a definition.
type Applied struct {
	// Name is the workflow's, and Version that of this content.
	Name    string `json:"name"`
	Version int    `json:"version"`
	Hash    string `json:"hash"`
	// Changed is false if that content was current already.
	Changed bool `json:"changed"`
	// Warnings name what is allowed and may be a mistake, such as an agent of which no instance runs.
	Warnings []Place `json:"warnings"`
}

// Apply makes the definition of a workflow, in YAML or JSON, the current one. New tasks use it; tasks that run keep theirs. Applying the same
// content again changes nothing. ErrInvalid: its *Error has every fault with line and column.
//
// The definition is complete in itself: a schema in another file (`$ref`) has to be written into it, as `sagalog workflow apply` does.
func (e *Engine) Apply(ctx context.Context, definition []byte) (Applied, error) {
	name, err := workflowOf(definition)
	if err != nil {
		return Applied{}, err
	}
	var a Applied
	err = e.api.insist(ctx, call{
		method: http.MethodPut, path: "/v1/workflows/" + url.PathEscape(name), body: definition, content: "application/yaml",
		engines: func() bool { return a.Name == name && a.Version > 0 },
	}, &a)
	return a, err
}

// workflowOf returns the name in a definition, and leaves everything else to the engine, which says where a fault is.
func workflowOf(definition []byte) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(definition, &document); err != nil {
		return "", &Error{Kind: ErrInvalid, Detail: fmt.Sprintf("the definition: %s", err)}
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return "", &Error{Kind: ErrInvalid, Detail: "the definition is not an object with the members workflow and steps: Apply takes the text of a definition, not the name of its file"}
	}
	members := document.Content[0].Content
	for i := 0; i+1 < len(members); i += 2 {
		if key, value := members[i], members[i+1]; key.Value == "workflow" && value.Kind == yaml.ScalarNode && value.Value != "" {
			return value.Value, nil
		}
	}
	return "", &Error{Kind: ErrInvalid, Detail: "the definition is without the name of its workflow", Places: []Place{{Pointer: "/workflow", Message: "is missing, or is not a text"}}}
}
