package check_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// types are the kinds that the chart may make.
var types = map[string]func() any{
	"apps/v1 StatefulSet":                     func() any { return new(appsv1.StatefulSet) },
	"apps/v1 Deployment":                      func() any { return new(appsv1.Deployment) },
	"v1 Service":                              func() any { return new(corev1.Service) },
	"v1 ServiceAccount":                       func() any { return new(corev1.ServiceAccount) },
	"v1 ConfigMap":                            func() any { return new(corev1.ConfigMap) },
	"policy/v1 PodDisruptionBudget":           func() any { return new(policyv1.PodDisruptionBudget) },
	"networking.k8s.io/v1 NetworkPolicy":      func() any { return new(networkingv1.NetworkPolicy) },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return new(monitoringv1.ServiceMonitor) },
	"monitoring.coreos.com/v1 PrometheusRule": func() any { return new(monitoringv1.PrometheusRule) },
}

func TestHelmLintFindsNothing(t *testing.T) {
	for _, file := range valuesFiles(t) {
		for _, m := range lint.All(chartDir, readValues(t, file), "prod", true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", filepath.Base(file), m)
			}
		}
	}
}

// Kubernetes and the Prometheus operator know every field, and none is given twice.
func TestObjectsAreOfTheirTypes(t *testing.T) {
	made := map[string]bool{}
	forEach(t, func(t *testing.T, all []object) {
		for _, o := range all {
			kind := o.apiVersion + " " + o.kind
			require.Contains(t, types, kind, "%s makes a kind that this test does not know", o.template)
			require.NoError(t, yaml.UnmarshalStrict(o.yaml, types[kind]()), "%s of %s:\n%s", kind, o.template, o.yaml)
			made[kind] = true
		}
	})
	for kind := range types {
		require.True(t, made[kind], "no file of values makes a %s", kind)
	}
}

// kubernetesVersions are the versions whose schemas are tried: the oldest that Chart.yaml allows, and newer ones.
var kubernetesVersions = []string{"v1.30", "v1.34", "v1.37"}

// compiler compiles the schemas in a folder, whose common definitions have an address on the web.
func compiler(t *testing.T, dir string) *jsonschema.Compiler {
	t.Helper()
	c := jsonschema.NewCompiler()
	f, err := os.Open(filepath.Join(dir, "_definitions.json"))
	require.NoError(t, err)
	defer f.Close()
	definitions, err := jsonschema.UnmarshalJSON(f)
	require.NoError(t, err)
	require.NoError(t, c.AddResource("https://kubernetes.io/api/_definitions.json", definitions))
	return c
}

// The schemas know more than the types: which fields are required, and what a value may look like. (They do not know the words that a field
// may have, such as the types of a Service; those that values choose are in values.schema.json.)
func TestObjectsMatchSchemas(t *testing.T) {
	dir := os.Getenv("SAGALOG_KUBERNETES_SCHEMAS")
	if dir == "" {
		t.Skip("SAGALOG_KUBERNETES_SCHEMAS names no folder of schemas; .ci/run helm gets them")
	}
	checked := 0
	for _, version := range kubernetesVersions {
		compiler := compiler(t, filepath.Join(dir, version+".0-local-strict"))
		forEach(t, func(t *testing.T, all []object) {
			for _, o := range all {
				if o.apiVersion == "monitoring.coreos.com/v1" {
					continue // custom resources are not Kubernetes' own
				}
				group, v, found := strings.Cut(o.apiVersion, "/")
				name := fmt.Sprintf("%s-%s-%s.json", o.kind, strings.TrimSuffix(group, ".k8s.io"), v)
				if !found {
					name = fmt.Sprintf("%s-%s.json", o.kind, group)
				}
				file := filepath.Join(dir, version+".0-local-strict", strings.ToLower(name))
				require.True(t, exists(file), "there is no schema %s", file)
				schema, err := compiler.Compile(file)
				require.NoError(t, err)
				asJSON, err := yaml.YAMLToJSON(o.yaml)
				require.NoError(t, err)
				value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(asJSON)))
				require.NoError(t, err)
				require.NoError(t, schema.Validate(value), "%s %s of %s", o.kind, o.name, o.template)
				checked++
			}
		})
	}
	require.NotZero(t, checked)
}
