package status

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/internal/podstatus"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata/corpus; review the difference")

// scene is the input of one Compute call. Absent fields default to the previous scene of the
// history, or to the zero value.
type scene struct {
	// Pod may omit irrelevant fields. Defaults: namespace ns, name pod, uid uid, generation 1,
	// images image/<container>.
	Pod      *v1.Pod       `json:"pod,omitempty"`
	Observed *runtimeScene `json:"observed,omitempty"`
	// Unobserved discards an inherited Observed.
	Unobserved    bool                               `json:"unobserved,omitempty"`
	Previous      *v1.PodStatus                      `json:"previous,omitempty"`
	API           *v1.PodStatus                      `json:"api,omitempty"`
	Probes        map[string]probeScene              `json:"probes,omitempty"`
	StartFailures map[string]podwright.Reason        `json:"startFailures,omitempty"`
	Allocated     map[string]v1.ResourceRequirements `json:"allocated,omitempty"`
	HostIPs       []string                           `json:"hostIPs,omitempty"`
	Fail          *podwright.Reason                  `json:"fail,omitempty"`
	// Evict is an Override: phase Failed, this reason, DisruptionTarget.
	Evict    *podwright.Reason `json:"evict,omitempty"`
	Terminal bool              `json:"terminal,omitempty"`
	// PendingResize and ResizeInProgress are set before Compute. A reason "-" removes the
	// condition.
	PendingResize     *podwright.Reason `json:"pendingResize,omitempty"`
	ResizeInProgress  *podwright.Reason `json:"resizeInProgress,omitempty"`
	RecursiveReadOnly bool              `json:"recursiveReadOnly,omitempty"`
	StopSignals       bool              `json:"stopSignals,omitempty"`
	Now               metav1.Time       `json:"now"`
}

type probeScene struct{ Startup, Readiness, ContainerID string }

// runtimeScene is an observed.Pod. Default: one ready sandbox "sb" with address 10.0.0.1.
type runtimeScene struct {
	IPs        []string         `json:"ips,omitempty"`
	Sandboxes  *[]sandboxScene  `json:"sandboxes,omitempty"`
	Containers []containerScene `json:"containers,omitempty"`
}

type sandboxScene struct {
	ID          string   `json:"id"`
	State       string   `json:"state"`
	HostNetwork bool     `json:"hostNetwork,omitempty"`
	IPs         []string `json:"ips,omitempty"`
}

// containerScene is an instance in sandbox sb with the ID fake://<name>-<restartCount>. It
// started an hour before now, and ran for a minute if it exited.
type containerScene struct {
	Name         string              `json:"name"`
	State        string              `json:"state"`
	ID           string              `json:"id,omitempty"`
	Sandbox      string              `json:"sandbox,omitempty"`
	RestartCount int32               `json:"restartCount,omitempty"`
	ExitCode     int32               `json:"exitCode,omitempty"`
	Reason       string              `json:"reason,omitempty"`
	Message      string              `json:"message,omitempty"`
	Image        string              `json:"image,omitempty"`
	Untimed      bool                `json:"untimed,omitempty"`
	Resources    *observed.Resources `json:"resources,omitempty"`
	User         *observed.User      `json:"user,omitempty"`
	StopSignal   string              `json:"stopSignal,omitempty"`
}

type corpusCase struct {
	Name string `json:"name"`
	// History lists earlier scenes. Each is computed with the result of the previous one.
	History []scene `json:"history,omitempty"`
	scene   `json:",inline"`
	// Then is applied to the computed status: normalize, finalize (of the previous status,
	// without Compute), reject (with the reason Fail) or merge (over Fetched).
	Then        string         `json:"then,omitempty"`
	Fetched     *v1.PodStatus  `json:"fetched,omitempty"`
	MayStillRun bool           `json:"mayStillRun,omitempty"`
	Result      *resultScene   `json:"result,omitempty"`
	Want        map[string]any `json:"want,omitempty"`
}

// resultScene is the expected rest of a Result. Absent fields must be zero.
type resultScene struct {
	RestartAll          bool     `json:"restartAll,omitempty"`
	ProbeNow            []string `json:"probeNow,omitempty"`
	HostIPFamilyChanged bool     `json:"hostIPFamilyChanged,omitempty"`
}

var manyBytes = regexp.MustCompile(`<(\d+) bytes>`)

// expand replaces "<1000 bytes>" in messages by as many bytes.
func expand(text string) string {
	return manyBytes.ReplaceAllStringFunc(text, func(s string) string {
		n, err := strconv.Atoi(manyBytes.FindStringSubmatch(s)[1])
		if err != nil {
			return s
		}
		return strings.Repeat("x", n)
	})
}

func render(t *testing.T, s v1.PodStatus) string {
	rest, err := json.Marshal(s)
	require.NoError(t, err)
	var short []byte
	for long := bytes.Repeat([]byte("x"), 100); len(rest) > 0; {
		at := bytes.Index(rest, long)
		if at < 0 {
			at = len(rest)
		}
		short = append(short, rest[:at]...)
		end := bytes.TrimLeft(rest[at:], "x")
		if n := len(rest) - at - len(end); n > 0 {
			short = fmt.Appendf(short, "<%d bytes>", n)
		}
		rest = end
	}
	text, err := yaml.JSONToYAML(short)
	require.NoError(t, err)
	return string(text)
}

// corpusDocument is the text of a case, with the start of its expected result.
type corpusDocument struct {
	text, first string
	c           corpusCase
}

func readCorpus(t *testing.T, path string) (docs []corpusDocument) {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for i, doc := range strings.Split(string(text), "\n---\n") {
		d := corpusDocument{text: doc}
		d.first, _, _ = strings.Cut(doc, "\n")
		require.NoError(t, yaml.UnmarshalStrict([]byte(doc), &d.c), "%s, case %d: %s", path, i+1, d.first)
		docs = append(docs, d)
	}
	return docs
}

func corpusFiles(t *testing.T) []string {
	files, err := filepath.Glob("testdata/corpus/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// Every case computes the whole expected status. -update rewrites the cases that differ.
func TestCorpus(t *testing.T) {
	for _, file := range corpusFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			var updated []string
			for _, d := range readCorpus(t, file) {
				t.Run(d.c.Name, func(t *testing.T) {
					got, result := d.c.run(t)
					text := render(t, got)
					var want v1.PodStatus
					given, err := yaml.Marshal(d.c.Want)
					require.NoError(t, err)
					require.NoError(t, yaml.UnmarshalStrict(given, &want))
					if *update && render(t, want) != text {
						input, _, _ := strings.Cut(d.text, "\nwant:")
						d.text = input + "\nwant:\n  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
					} else {
						require.Equal(t, render(t, want), text, "run with -update to rewrite the expected status")
					}
					updated = append(updated, strings.TrimSuffix(d.text, "\n"))
					expected := d.c.Result
					if expected == nil {
						expected = &resultScene{}
					}
					require.Equal(t, *expected, result)
				})
			}
			if *update && !t.Failed() {
				require.NoError(t, os.WriteFile(file, []byte(strings.Join(updated, "\n---\n")+"\n"), 0o644))
			}
		})
	}
}

// The corpus is large enough, its cases have unique names and start with a description, and every
// scenario is covered.
func TestCorpusIsComplete(t *testing.T) {
	names, count := map[string]string{}, 0
	for _, file := range corpusFiles(t) {
		for _, d := range readCorpus(t, file) {
			count++
			require.NotEmpty(t, d.c.Name, "%s: %s", file, d.first)
			require.Empty(t, names[d.c.Name], "%s is the name of two cases", d.c.Name)
			names[d.c.Name] = file
			require.True(t, strings.HasPrefix(d.first, "# ") && len(d.first) > 20, "%s: the first line must describe the case", d.c.Name)
			require.NotEmpty(t, d.c.Want, d.c.Name)
		}
	}
	require.GreaterOrEqual(t, count, 120)
	ids := []int{33, 35, 40, 54}
	for id := range 24 {
		ids = append(ids, id+1)
	}
	for _, id := range ids {
		found := false
		for name := range names {
			for _, word := range strings.Fields(name) {
				found = found || word == fmt.Sprint("T", id)
			}
		}
		require.True(t, found, "no case covers T%d", id)
	}
}

// run computes the history and then the case itself, twice: the result of the first call as the
// previous status changes nothing.
func (c *corpusCase) run(t *testing.T) (v1.PodStatus, resultScene) {
	var last scene
	var previous *v1.PodStatus
	for _, s := range c.History {
		last = s.after(last)
		r := computed(t, last.input(previous))
		previous = &r.Status
	}
	now := c.scene.after(last)
	in := now.input(previous)
	switch c.Then {
	case "reject":
		return Reject(in.Pod, c.Fail.Reason, c.Fail.Message), resultScene{}
	case "finalize":
		pod := in.Pod.DeepCopy()
		if in.API != nil {
			pod.Status = *in.API
		}
		return podstatus.Finalize(pod, *in.Previous, in.Now), resultScene{}
	}
	r := computeTwice(t, in)
	switch c.Then {
	case "normalize":
		r.Status = podstatus.Normalize(in.Pod, r.Status)
	case "merge":
		pod := in.Pod.DeepCopy()
		pod.Status = *c.Fetched
		r.Status = podstatus.Merge(pod, &r.Status, c.MayStillRun, in.Now)
	case "":
	default:
		t.Fatalf("then: %s is unknown", c.Then)
	}
	return r.Status, resultScene{r.RestartAll, r.ProbeNow, r.HostIPFamilyChanged}
}

func (s scene) after(before scene) scene {
	out := before
	set(&out.Pod, s.Pod)
	set(&out.Observed, s.Observed)
	set(&out.API, s.API)
	set(&out.Previous, s.Previous)
	out.Fail, out.Evict, out.PendingResize, out.ResizeInProgress = s.Fail, s.Evict, s.PendingResize, s.ResizeInProgress
	if s.Unobserved {
		out.Observed = nil
	}
	if s.Probes != nil {
		out.Probes = s.Probes
	}
	out.StartFailures = s.StartFailures // not inherited
	if s.Allocated != nil {
		out.Allocated = s.Allocated
	}
	if s.HostIPs != nil {
		out.HostIPs = s.HostIPs
	}
	out.Terminal = before.Terminal || s.Terminal
	out.RecursiveReadOnly, out.StopSignals = s.RecursiveReadOnly, s.StopSignals
	out.Now = s.Now
	return out
}

func set[T any](to **T, value *T) {
	if value != nil {
		*to = value
	}
}

func (s scene) input(previous *v1.PodStatus) Input {
	pod := s.pod()
	at := s.Now.Time
	if at.IsZero() {
		at = now
	}
	if previous == nil {
		previous = s.Previous
	}
	in := Input{
		Pod: pod, Previous: s.resized(previous, pod, at), StartFailures: s.StartFailures, Allocated: s.Allocated,
		HostIPs: s.HostIPs, Fail: s.Fail, Terminal: s.Terminal, RecursiveReadOnly: s.RecursiveReadOnly, StopSignals: s.StopSignals, Now: at,
	}
	if s.API != nil {
		in.API = s.API.DeepCopy()
		for i := range in.API.Conditions {
			in.API.Conditions[i].Message = expand(in.API.Conditions[i].Message)
		}
	}
	if s.Observed != nil {
		in.Observed = s.Observed.observed(pod)
	}
	if s.Probes != nil {
		by := map[string]probed{}
		verdicts := map[string]probe.Verdict{"": probe.Unknown, "passed": probe.Success, "failed": probe.Failure}
		for name, p := range s.Probes {
			by[name] = probed{Startup: verdicts[p.Startup], Readiness: verdicts[p.Readiness], ContainerID: p.ContainerID}
		}
		in.Probes = results(in.Observed, by)
	}
	if s.Evict != nil {
		in.Override = func(status *v1.PodStatus) {
			*status = WithDisruption(pod, *status, s.Evict.Message, at)
			status.Phase, status.Reason, status.Message = v1.PodFailed, s.Evict.Reason, s.Evict.Message
		}
	}
	return in
}

func (s scene) resized(previous *v1.PodStatus, pod *v1.Pod, at time.Time) *v1.PodStatus {
	if previous == nil || s.PendingResize == nil && s.ResizeInProgress == nil {
		return previous
	}
	out := *previous
	if why := s.PendingResize; why != nil && why.Reason == "-" {
		out = WithoutResizePending(out)
	} else if why != nil {
		out = WithResizePending(out, pod.Generation, *why, at)
	}
	if why := s.ResizeInProgress; why != nil && why.Reason == "-" {
		out = WithoutResizeInProgress(out)
	} else if why != nil {
		out = WithResizeInProgress(out, pod.Generation, *why, at)
	}
	return &out
}

func (s scene) pod() *v1.Pod {
	pod := s.Pod.DeepCopy()
	if pod.Name == "" {
		pod.Namespace, pod.Name, pod.UID = "ns", "pod", "uid"
	}
	if pod.Generation == 0 {
		pod.Generation = 1
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Image == "" {
				list[i].Image = "image/" + list[i].Name
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Image == "" {
			c.Image = "image/" + c.Name
		}
	}
	return pod
}

func (s *runtimeScene) observed(pod *v1.Pod) *observed.Pod {
	out := &observed.Pod{UID: pod.UID, IPs: s.IPs, ObservedAt: now}
	sandboxes := s.Sandboxes
	if sandboxes == nil {
		sandboxes = &[]sandboxScene{{ID: "sb", State: "ready", HostNetwork: pod.Spec.HostNetwork, IPs: []string{"10.0.0.1"}}}
		if s.IPs == nil && !pod.Spec.HostNetwork {
			out.IPs = []string{"10.0.0.1"}
		}
	}
	states := map[string]observed.SandboxState{"ready": observed.SandboxReady, "not ready": observed.SandboxNotReady, "unknown": observed.SandboxUnknown}
	for _, sb := range *sandboxes {
		out.Sandboxes = append(out.Sandboxes, observed.Sandbox{
			ID: sb.ID, State: states[sb.State], HostNetwork: sb.HostNetwork, HasNetworkStatus: true, IPs: sb.IPs, CreatedAt: before,
		})
	}
	for _, c := range s.Containers {
		out.Containers = append(out.Containers, c.observed())
	}
	return out
}

func (c containerScene) observed() observed.Container {
	states := map[string]observed.State{"running": observed.StateRunning, "exited": observed.StateExited, "created": observed.StateCreated, "unknown": observed.StateUnknown}
	out := instance(c.Name, states[c.State], nil)
	out.RestartCount, out.ExitCode, out.Reason, out.Message = c.RestartCount, c.ExitCode, c.Reason, expand(c.Message)
	out.ID.ID = fmt.Sprint(c.Name, "-", c.RestartCount)
	if c.ID != "" {
		out.ID.ID = c.ID
	}
	if c.Sandbox != "" {
		out.SandboxID = c.Sandbox
	}
	if c.Image != "" {
		out.Image = c.Image
	}
	if out.State == observed.StateExited {
		out.FinishedAt = before.Add(time.Minute)
	}
	if c.Untimed {
		out.CreatedAt, out.StartedAt, out.FinishedAt = time.Time{}, time.Time{}, time.Time{}
	}
	out.Resources, out.User, out.StopSignal = c.Resources, c.User, c.StopSignal
	return out
}
