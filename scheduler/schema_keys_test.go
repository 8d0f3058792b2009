package scheduler_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/scheduler"
)

func TestThePublishedSchemaHasExactlyTheKeysOfParse(t *testing.T) {
	t.Parallel()
	var doc map[string]any
	require.NoError(t, json.Unmarshal(scheduler.JSONSchema(), &doc))
	for path, keys := range scheduler.KeyTables {
		at := doc
		for part := range strings.SplitSeq(path, "/") {
			if part != "" {
				at = at[part].(map[string]any)
			}
		}
		properties := at["properties"].(map[string]any)
		require.Equal(t, slices.Sorted(slices.Values(keys)), slices.Sorted(maps.Keys(properties)), path)
		require.Equal(t, false, at["additionalProperties"], path)
		for key, p := range properties {
			about := p.(map[string]any)
			_, referred := about["$ref"]
			require.True(t, referred || about["description"] != nil || about["type"] != nil || about["const"] != nil, "%s %s says nothing", path, key)
		}
	}
}

func TestThePublishedSchemaJudgesTheExampleFilesAsParseDoes(t *testing.T) {
	t.Parallel()
	s := compilePublished(t)
	for file, valid := range map[string]bool{
		"testdata/drone-delivery.yaml":                  true,
		"../internal/dronedelivery/files/workflow.yaml": true,
		"../internal/bench/five.yaml":                   true,
		"testdata/bad.yaml":                             false,
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		src, faults := scheduler.Parse(file, text, func(ref string) ([]byte, error) { return os.ReadFile(filepath.Join(filepath.Dir(file), ref)) })
		require.Equal(t, valid, src != nil, "%s\n%s", file, lines(faults))
		var v any
		err = yaml.Load(text, &v) // duplicate keys are refused here
		if err == nil {
			err = s.Validate(v)
		}
		if valid {
			require.NoError(t, err, file)
		} else {
			require.Error(t, err, file)
		}
	}
}
