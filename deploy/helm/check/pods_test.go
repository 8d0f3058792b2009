package check_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// workload is what starts pods.
type workload struct {
	name     string
	selector map[string]string
	pod      corev1.PodTemplateSpec
	claims   []string // names of volumes that the workload makes
}

func (w workload) container() corev1.Container { return w.pod.Spec.Containers[0] }

// env returns the variables of the container, with those that Kubernetes fills in as they would be for the first pod.
func (w workload) env() map[string]string {
	all := map[string]string{}
	for _, e := range w.container().Env {
		value := e.Value
		switch {
		case e.ValueFrom != nil && e.ValueFrom.FieldRef != nil:
			value = w.name + "-0"
		case e.ValueFrom != nil:
			value = "https://secret.example/" + e.Name
		}
		for name, v := range all {
			value = strings.ReplaceAll(value, "$("+name+")", v)
		}
		all[e.Name] = value
	}
	return all
}

func workloads(t *testing.T, all []object) []workload {
	t.Helper()
	var found []workload
	for _, o := range all {
		switch o.kind {
		case "StatefulSet":
			var s appsv1.StatefulSet
			require.NoError(t, yaml.Unmarshal(o.yaml, &s))
			w := workload{name: s.Name, selector: s.Spec.Selector.MatchLabels, pod: s.Spec.Template}
			for _, c := range s.Spec.VolumeClaimTemplates {
				w.claims = append(w.claims, c.Name)
			}
			found = append(found, w)
		case "Deployment":
			var d appsv1.Deployment
			require.NoError(t, yaml.Unmarshal(o.yaml, &d))
			found = append(found, workload{name: d.Name, selector: d.Spec.Selector.MatchLabels, pod: d.Spec.Template})
		}
	}
	require.NotEmpty(t, found)
	return found
}

func forEachWorkload(t *testing.T, test func(t *testing.T, w workload)) {
	t.Helper()
	forEach(t, func(t *testing.T, all []object) {
		for _, w := range workloads(t, all) {
			t.Run(w.name, func(t *testing.T) { test(t, w) })
		}
	})
}

func TestPodsHaveNoPrivileges(t *testing.T) {
	forEachWorkload(t, func(t *testing.T, w workload) {
		spec, c := w.pod.Spec, w.container()
		require.Len(t, spec.Containers, 1)
		require.True(t, *spec.SecurityContext.RunAsNonRoot)
		require.NotZero(t, *spec.SecurityContext.RunAsUser)
		require.NotZero(t, *spec.SecurityContext.FSGroup, "without a group, the process cannot read Secrets")
		require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type)
		require.False(t, *spec.AutomountServiceAccountToken)
		require.False(t, *spec.EnableServiceLinks, "Kubernetes would set variables named SAGALOG_...")
		require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
		require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
		require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
		require.Empty(t, c.SecurityContext.Capabilities.Add)
		require.NotZero(t, c.Resources.Limits.Memory().Value())
		require.NotZero(t, c.Resources.Requests.Cpu().MilliValue())
		require.NotZero(t, c.Resources.Requests.Memory().Value())
	})
}

// drainSeconds is the time of a stop: the program ends within 5 s, and its agents may use twice their grace of 2 s.
const drainSeconds = 10

func TestPodsHaveTimeToStop(t *testing.T) {
	forEachWorkload(t, func(t *testing.T, w workload) {
		c := w.container()
		for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			require.NotNil(t, p)
			require.Contains(t, portNames(c), p.HTTPGet.Port.String())
		}
		require.Equal(t, "/healthz", c.LivenessProbe.HTTPGet.Path)
		sleep := c.Lifecycle.PreStop.Sleep.Seconds
		require.GreaterOrEqual(t, *w.pod.Spec.TerminationGracePeriodSeconds, sleep+drainSeconds)
		// A start waits a minute for brokers that do not answer, and must not be ended before that.
		require.Greater(t, c.StartupProbe.PeriodSeconds*c.StartupProbe.FailureThreshold, int32(60))
	})
}

func portNames(c corev1.Container) []string {
	var names []string
	for _, p := range c.Ports {
		names = append(names, p.Name)
	}
	return names
}

// Every volume is mounted, every mounted volume exists, and every path in a variable is in a mounted volume.
func TestPathsAreInMountedVolumes(t *testing.T) {
	forEachWorkload(t, func(t *testing.T, w workload) {
		volumes := slices.Clone(w.claims)
		for _, v := range w.pod.Spec.Volumes {
			volumes = append(volumes, v.Name)
			if v.Secret != nil {
				require.Equal(t, int32(0o440), *v.Secret.DefaultMode, "the program refuses a secret that others can read")
			}
		}
		var mounted, places []string
		for _, m := range w.container().VolumeMounts {
			mounted, places = append(mounted, m.Name), append(places, m.MountPath)
			require.Equal(t, m.Name != "data" && m.Name != "tmp", m.ReadOnly, m.Name)
			require.Empty(t, m.SubPath, "a file that is mounted alone does not change with its Secret")
		}
		require.ElementsMatch(t, volumes, mounted)
		for name, value := range w.env() {
			if strings.HasPrefix(name, "SAGALOG_") && strings.HasPrefix(value, "/") {
				require.True(t, slices.Contains(places, value) || slices.Contains(places, path.Dir(value)), "%s: nothing is mounted for %s", name, value)
			}
		}
	})
}

// The names of Secrets are all that the chart knows of them: it makes none, and its ConfigMaps hold only files that values give.
func TestNoSecretIsRendered(t *testing.T) {
	forEach(t, func(t *testing.T, all []object) {
		for _, o := range all {
			require.NotEqual(t, "Secret", o.kind)
		}
		for _, w := range workloads(t, all) {
			for _, e := range w.container().Env {
				for _, word := range []string{"PASSWORD", "SECRET", "TOKEN", "KEY"} {
					if strings.Contains(e.Name, word) && e.Value != "" {
						require.True(t, strings.HasPrefix(e.Value, "/etc/sagalog/"), "%s is neither a file nor taken from a Secret", e.Name)
					}
				}
			}
		}
	})
}

// A Service, a budget and the policy select the pods that they are for, and a workload selects its own only.
func TestSelectorsMeetTheirPods(t *testing.T) {
	forEach(t, func(t *testing.T, all []object) {
		ws := workloads(t, all)
		selected := func(selector map[string]string) []workload {
			require.NotEmpty(t, selector)
			return slices.DeleteFunc(slices.Clone(ws), func(w workload) bool {
				return !labels.SelectorFromSet(selector).Matches(labels.Set(w.pod.Labels))
			})
		}
		for _, w := range ws {
			require.Len(t, selected(w.selector), 1, w.name)
			for _, c := range w.pod.Spec.TopologySpreadConstraints {
				require.Len(t, selected(c.LabelSelector.MatchLabels), 1, w.name)
			}
		}
		for _, o := range all {
			switch o.kind {
			case "Service":
				var s corev1.Service
				require.NoError(t, yaml.Unmarshal(o.yaml, &s))
				found := selected(s.Spec.Selector)
				require.Len(t, found, 1, o.name)
				require.Contains(t, portNames(found[0].container()), s.Spec.Ports[0].TargetPort.String())
			case "PodDisruptionBudget":
				var b policyv1.PodDisruptionBudget
				require.NoError(t, yaml.Unmarshal(o.yaml, &b))
				require.Len(t, selected(b.Spec.Selector.MatchLabels), 1, o.name)
			}
		}
	})
}

// The address that an owner gives to other nodes is the name that the headless Service gives to its pod.
func TestOwnersAreReachedByTheirNames(t *testing.T) {
	forEach(t, func(t *testing.T, all []object) {
		for _, o := range all {
			if o.kind != "StatefulSet" {
				continue
			}
			var s appsv1.StatefulSet
			require.NoError(t, yaml.Unmarshal(o.yaml, &s))
			w := workloads(t, []object{o})[0]
			require.Equal(t, s.Name+"-0", w.env()["SAGALOG_NODE"])
			require.Equal(t, s.Name+"-0."+s.Spec.ServiceName+".prod.svc:8642", w.env()["SAGALOG_ADVERTISE"])
			require.True(t, slices.ContainsFunc(all, func(o object) bool { return o.kind == "Service" && o.name == s.Spec.ServiceName }))
		}
	})
}
