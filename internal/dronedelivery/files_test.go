package dronedelivery_test

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

func TestEachStepHasABindingAndEachBindingItsURL(t *testing.T) {
	t.Parallel()
	var workflow struct {
		Workflow string
		Steps    map[string]struct {
			Agent string
			Needs []string
			Undo  map[string]any
			Pivot bool
		}
	}
	text, err := fs.ReadFile(dronedelivery.Files(), "workflow.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &workflow))
	require.Equal(t, dronedelivery.Name, workflow.Workflow)
	require.Len(t, workflow.Steps, len(dronedelivery.Services()))
	for _, service := range dronedelivery.Services() {
		b, err := fs.ReadFile(dronedelivery.Files(), "agents/"+service+".yaml")
		require.NoError(t, err)
		var binding struct {
			Agent string
			HTTP  struct{ Base string }
			Do    struct{ Method, Path string }
			Undo  struct{ Method, Path string }
		}
		require.NoError(t, yaml.Unmarshal(b, &binding))
		require.Equal(t, service, binding.Agent)
		require.Equal(t, "${ env."+dronedelivery.EnvName(service)+" }", binding.HTTP.Base)
		require.Equal(t, "PUT", binding.Do.Method)

		step, ok := workflow.Steps[service]
		require.True(t, ok)
		require.Equal(t, service, step.Agent)
		require.Equal(t, service == dronedelivery.Delivery, step.Pivot)
		undoable := service != dronedelivery.Account && service != dronedelivery.Delivery
		require.Equal(t, undoable, step.Undo != nil, service)
		if undoable {
			require.Equal(t, "DELETE", binding.Undo.Method)
			require.Equal(t, binding.Do.Path, binding.Undo.Path)
		}
	}
}

func TestSubmissionsSatisfyTheSchemaAndHalfCrossRegions(t *testing.T) {
	t.Parallel()
	b, err := fs.ReadFile(dronedelivery.Files(), "delivery.schema.json")
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("delivery.schema.json", doc))
	schema, err := c.Compile("delivery.schema.json")
	require.NoError(t, err)

	crossing, ids := 0, map[string]bool{}
	for i := range 2000 {
		task := dronedelivery.Submission(i, 7)
		input, err := json.Marshal(task.Input)
		require.NoError(t, err)
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(input)))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(v), string(input))
		require.Equal(t, task, dronedelivery.Submission(i, 7))
		ids[task.ID] = true
		if task.Input.Pickup.Region != task.Input.Dropoff.Region {
			crossing++
		}
	}
	require.Len(t, ids, 2000)
	require.InDelta(t, 1000, crossing, 150)
	require.NotEqual(t, dronedelivery.Submission(1, 7).Input, dronedelivery.Submission(1, 8).Input)

	for _, bad := range []string{`{}`, `{"ownerId":1}`, `[]`, `{"ownerId":"o","packageInfo":{"size":"small","weight":"1"},"pickup":{"region":"n"},"dropoff":{"region":"s"}}`} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(bad))
		require.NoError(t, err)
		require.Error(t, schema.Validate(v), bad)
	}
}
