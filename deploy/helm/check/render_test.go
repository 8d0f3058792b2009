package check_test

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

const chartDir = "../sagalog"

// valuesFiles are the files of values that everything is checked with.
func valuesFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(chartDir, "ci", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

func readValues(t *testing.T, file string) map[string]any {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.UnmarshalStrict(b, &values))
	return values
}

// render does what `helm template shop --namespace prod` does. It returns the text by the template's name.
func render(values map[string]any) (map[string]string, error) {
	c, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: "shop", Namespace: "prod", Revision: 1, IsInstall: true}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.34.0", Major: "1", Minor: "34"}
	all, err := chartutil.ToRenderValues(c, values, release, capabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// object is one rendered object.
type object struct {
	template, kind, apiVersion, name string
	yaml                             []byte
}

// objects renders a file of values.
func objects(t *testing.T, file string) []object {
	t.Helper()
	texts, err := render(readValues(t, file))
	require.NoError(t, err)
	var all []object
	for _, template := range slices.Sorted(maps.Keys(texts)) {
		if strings.HasSuffix(template, "NOTES.txt") {
			require.NotContains(t, texts[template], "<no value>")
			continue
		}
		for _, doc := range bytes.Split([]byte("\n"+texts[template]), []byte("\n---")) {
			var head struct {
				Kind, APIVersion string
				Metadata         struct{ Name string }
			}
			require.NoError(t, yaml.Unmarshal(doc, &head), "%s:\n%s", template, doc)
			if head.Kind != "" {
				all = append(all, object{template, head.Kind, head.APIVersion, head.Metadata.Name, doc})
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}

// forEach runs a test with the objects of each file of values.
func forEach(t *testing.T, test func(t *testing.T, all []object)) {
	t.Helper()
	for _, file := range valuesFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) { test(t, objects(t, file)) })
	}
}

// exists says whether there is a file of that name.
func exists(name string) bool {
	_, err := fs.Stat(os.DirFS(filepath.Dir(name)), filepath.Base(name))
	return err == nil
}
