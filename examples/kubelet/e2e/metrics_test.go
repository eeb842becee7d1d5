package e2e_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

var metricsPaths = []string{"/metrics", "/metrics/probes", "/metrics/slis", "/metrics/resource", "/metrics/cadvisor"}

// scraped is the content of an endpoint: for each metric name its type and its label names.
type scraped map[string]string

func scrape(t testing.TB, client *http.Client, url string) scraped {
	t.Helper()
	families, err := families(client, url)
	require.NoError(t, err, url)
	out := scraped{}
	for name, f := range families {
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
			}
		}
		out[name] = strings.ToLower(f.GetType().String()) + " " + strings.Join(slices.Sorted(maps.Keys(labels)), ",")
	}
	return out
}

func families(client *http.Client, url string) (map[string]*dto.MetricFamily, error) {
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(resp.Body)
}

// knownDifferences lists accepted differences: metric names, or prefixes followed by a star. The
// value is true for differences that occurred.
type knownDifferences map[string]bool

func readKnownDifferences(t testing.TB, file string) knownDifferences {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	out := knownDifferences{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, why, ok := strings.Cut(line, " ")
		require.True(t, ok && strings.TrimSpace(why) != "", "%s: %q has no reason", file, line)
		require.NotContains(t, out, name)
		out[name] = false
	}
	return out
}

func (k knownDifferences) has(name string) bool {
	for pattern := range k {
		if start, more := strings.CutSuffix(pattern, "*"); pattern == name || more && strings.HasPrefix(name, start) {
			k[pattern] = true
			return true
		}
	}
	return false
}

// unmatched returns the listed differences that did not occur.
func (k knownDifferences) unmatched() (out []string) {
	for pattern, met := range k {
		if !met {
			out = append(out, pattern)
		}
	}
	slices.Sort(out)
	return out
}

// differences returns the differences of two scrapes that are not listed.
func differences(path string, ours, theirs scraped, listed knownDifferences) (out []string) {
	names := maps.Clone(ours)
	maps.Copy(names, theirs)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if ours[name] != theirs[name] && !listed.has(name) {
			out = append(out, fmt.Sprintf("%s %s: ours %q, upstream's %q", path, name, ours[name], theirs[name]))
		}
	}
	return out
}

// measuredPods returns pods that leave traces in most series.
func measuredPods(s *scene) []*v1.Pod {
	probe := func(command ...string) *v1.Probe {
		return &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: command}}, PeriodSeconds: 1}
	}
	probed := newPod("probed", shell("main", s.images.Busybox, untilTerm))
	probed.Spec.Containers[0].LivenessProbe, probed.Spec.Containers[0].ReadinessProbe = probe("true"), probe("false")
	addVolume(probed, "e", "/e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
	dies := newPod("dies", shell("main", s.images.Busybox, "exit 3"))
	dies.Spec.InitContainers = []v1.Container{shell("init", s.images.Busybox, "exit 0")}
	pods := []*v1.Pod{probed, dies, newPod("missing", shell("main", "127.0.0.1:1/none:v1", untilTerm))}
	for i, pod := range pods {
		pod.Namespace, pod.UID = "default", types.UID(fmt.Sprintf("%s-0000-0000-0002-%012d", s.node[1:], i))
	}
	return pods
}

// With the same pods the series equal the upstream kubelet's, except for the differences that the
// file lists with reasons.
func TestMetricsEqualUpstreams(t *testing.T) {
	listed := readKnownDifferences(t, filepath.Join("testdata", "metrics_differences.txt"))
	withUpstream(t, func(t *testing.T, s *scene, u *upstream) {
		pods := measuredPods(s)
		scrapeAll := func(url string) map[string]scraped {
			client := unverified()
			for _, pod := range pods {
				s.writeManifest(t, pod.Name+".yaml", pod)
			}
			wait(t, time.Minute, "probes have run", func() error {
				families, err := families(client, url+"/metrics/probes")
				if err == nil && len(families["prober_probe_total"].GetMetric()) < 2 {
					err = errors.New("prober_probe_total has fewer than 2 series")
				}
				return err
			})
			out := map[string]scraped{}
			for range 2 { // the second scrape counts the first one and the series that it started
				time.Sleep(3 * time.Second) // statuses, restarts and housekeeping
				for _, path := range metricsPaths {
					out[path] = scrape(t, client, url+path)
				}
			}
			return out
		}
		s.start(t)
		ours := scrapeAll(s.url)
		for _, pod := range pods {
			require.NoError(t, os.Remove(s.manifestPath(pod.Name+".yaml")))
		}
		wait(t, time.Minute, "all pods are removed", s.empty)
		require.Zero(t, s.terminate(t, 30*time.Second))
		u.start(t)
		theirs := scrapeAll(fmt.Sprintf("https://127.0.0.1:%d", u.port))
		u.stop(t, syscall.SIGTERM)
		var differ []string
		for _, path := range metricsPaths {
			require.NotEmpty(t, theirs[path], path)
			differ = append(differ, differences(path, ours[path], theirs[path], listed)...)
		}
		require.Empty(t, differ, "%d", len(differ))
	})
	if !t.Failed() {
		require.Empty(t, listed.unmatched(), "listed differences that occurred on no runtime")
	}
}

// An unlisted difference fails, and so does a listed difference that does not occur.
func TestDifferencesOfMetrics(t *testing.T) {
	listed := knownDifferences{"a": false, "b_*": false, "unmatched": false}
	ours := scraped{"a": "gauge ", "b_1": "gauge x", "c": "counter x", "d": "gauge x", "same": "gauge "}
	theirs := scraped{"b_1": "gauge x,y", "c": "counter y", "d": "counter x", "e": "gauge ", "same": "gauge "}
	require.Equal(t, []string{
		`/m c: ours "counter x", upstream's "counter y"`, `/m d: ours "gauge x", upstream's "counter x"`, `/m e: ours "", upstream's "gauge "`,
	}, differences("/m", ours, theirs, listed))
	require.Equal(t, []string{"unmatched"}, listed.unmatched())
}
