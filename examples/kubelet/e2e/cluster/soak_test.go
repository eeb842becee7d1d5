package cluster_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

var soakFor = flag.Duration("soak", 30*time.Second, "duration of TestSoak")

const soakPods = 60

var soakKinds = []string{
	`{containers: [` + probedContainer + `]}`,
	`{containers: [` + runningContainer + `}, {name: second, image: BUSYBOX, command: [sh, -c, 'sleep 2; exit 1']}]}`, // crashes
	`{restartPolicy: Never, containers: [{name: c, image: BUSYBOX, command: [sh, -c, 'echo done; exit 3']}]}`,
	`{initContainers: [{name: first, image: BUSYBOX, command: ["true"]}, {name: side, image: BUSYBOX, restartPolicy: Always, command: [sleep, "1000000"]}], containers: [` + runningContainer + `, lifecycle: {postStart: {exec: {command: ["true"]}}}}]}`,
	`{volumes: [{name: c, configMap: {name: soak}}, {name: m, emptyDir: {medium: Memory}}, {name: d, emptyDir: {}}], containers: [` + runningContainer + `, volumeMounts: [{name: c, mountPath: /c}, {name: m, mountPath: /m}, {name: d, mountPath: /d, subPath: sub}]}]}`,
	`{containers: [{name: c, image: TESTPROG, args: [http, ":8080"], livenessProbe: {httpGet: {port: 8080, path: /healthz}, periodSeconds: 1, timeoutSeconds: 10}}]}`,
}

// After an hour (with -soak 1h) of pods that are created, changed and deleted, crash and exit,
// agent and runtime use as many resources as before.
func TestSoak(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) {
		s := &soak{n: n, d: n.direct(t), rand: rand.New(rand.NewPCG(rand.Uint64(), 0))}
		n.apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: soak}\ndata: {round: begin}\n")
		s.fill(t, 2*len(soakKinds)) // creates lasting objects before the first measurement
		s.drain(t)
		before := s.measure(t)
		s.fill(t, soakPods)
		for begin := time.Now(); time.Since(begin) < *soakFor; time.Sleep(time.Second) {
			s.replaceSome(t)
		}
		t.Logf("%d pods in %d rounds; usage %v", s.made, s.rounds, s.measure(t))
		s.drain(t)
		n.until(t, "no usage has grown", func() error { return s.measure(t).grown(before) })
		t.Logf("before %v, afterwards %v", before, s.measure(t))
	})
}

// soak is a node with changing pods.
type soak struct {
	n            *node
	d            *direct
	rand         *rand.Rand
	pods         []string
	made, rounds int
}

// fill creates more pods, cycling through the kinds.
func (s *soak) fill(t *testing.T, more int) {
	var objects strings.Builder
	for range more {
		name := fmt.Sprint("s-", s.made)
		fmt.Fprintf(&objects, "---\n{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {nodeName: NODE, terminationGracePeriodSeconds: 1, %s}\n", name, soakKinds[s.made%len(soakKinds)][1:])
		s.pods = append(s.pods, name)
		s.made++
	}
	s.n.apply(t, objects.String())
}

// replaceSome replaces a tenth of the pods and changes mounted objects of some.
func (s *soak) replaceSome(t *testing.T) {
	s.rounds++
	s.rand.Shuffle(len(s.pods), func(i, j int) { s.pods[i], s.pods[j] = s.pods[j], s.pods[i] })
	replaced := slices.Clone(s.pods[:soakPods/10])
	s.pods = s.pods[len(replaced):]
	s.n.do(t, append([]string{"delete", "pod", "--wait=false"}, replaced...)...)
	s.fill(t, len(replaced))
	s.n.do(t, "patch", "configmap", "soak", "-p", fmt.Sprintf(`{"data": {"round": "%d"}}`, s.rounds))
	s.n.unstick(t)
}

func (s *soak) drain(t *testing.T) {
	s.n.do(t, append([]string{"delete", "pod", "--wait=false"}, s.pods...)...)
	s.pods = nil
	s.n.until(t, "all pods are deleted", func() error {
		s.n.unstick(t)
		if left := s.n.pods(t); len(left) > 0 {
			return fmt.Errorf("%d pods, such as %s", len(left), left[0].Name)
		}
		return s.n.empty()
	})
}

// footprint has the amounts of resources that could leak, by name.
type footprint map[string]int

// allowed has the tolerated growth: of short-lived resources, and of memory, which an allocator
// returns late. The agent keeps the last thousands of events, about 2 MiB, to count repetitions.
var allowed = footprint{"goroutines": 10, "descriptors": 10, "heap": 7 << 20, "resident memory": 24 << 20}

func (s *soak) measure(t *testing.T) footprint {
	s.d.http.CloseIdleConnections()
	h, process := s.d.usage(), fmt.Sprintf("/proc/%d", s.n.cmd.Process.Pid)
	sandboxes, err := s.n.cri.ListPodSandbox(t.Context(), nil)
	require.NoError(t, err)
	containers, err := s.n.cri.ListContainers(t.Context(), nil)
	require.NoError(t, err)
	return footprint{
		"goroutines": h.goroutines, "descriptors": h.descriptors, "heap": h.heap, "resident memory": h.resident,
		"inotify watches": linesOf(t, process+"/fdinfo/*", "inotify "),
		"mounts":          linesOf(t, "/proc/self/mounts", " "+s.n.root+"/"),
		"files of pods":   files(t, s.n.root+"/pods") + files(t, s.n.dir+"/logs"),
		"other files":     files(t, s.n.root) - files(t, s.n.root+"/pods"),
		"cgroups":         len(tb.PodCgroups("/podwright-" + s.n.name)),
		"sandboxes":       len(sandboxes), "containers": len(containers),
		"processes": s.processes(t),
	}
}

// processes counts the processes below the shims of the runtime. On a loaded machine containerd
// leaves empty shims of removed sandboxes behind.
func (s *soak) processes(t *testing.T) (count int) {
	paths, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, path := range paths {
		command, _ := os.ReadFile(path + "/cmdline") // empty for processes that have exited
		if !strings.Contains(string(command), "containerd-shim-runc-v2") || !strings.Contains(string(command), "\x00"+strings.TrimPrefix(s.n.runtime.Endpoint, "unix://")+"\x00") {
			continue
		}
		threads, err := filepath.Glob(path + "/task/*/children")
		require.NoError(t, err)
		for _, thread := range threads {
			children, _ := os.ReadFile(thread)
			count += len(strings.Fields(string(children)))
		}
	}
	return count
}

// grown returns an error for each amount that grew beyond the allowed limit.
func (a footprint) grown(before footprint) error {
	var errs []error
	for name, now := range a {
		if now > before[name]+allowed[name] {
			errs = append(errs, fmt.Errorf("%s: %d after %d", name, now, before[name]))
		}
	}
	return errors.Join(errs...)
}

// linesOf counts lines in files that contain all parts of text, separated by stars.
func linesOf(t *testing.T, pattern, text string) (count int) {
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	parts := strings.Split(text, "*")
	for _, path := range paths {
		data, _ := os.ReadFile(path) // empty for removed files
		for line := range strings.Lines(string(data)) {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
				count++
			}
		}
	}
	return count
}

func files(t *testing.T, dir string) (count int) {
	err := filepath.WalkDir(dir, func(_ string, _ fs.DirEntry, err error) error {
		if err == nil {
			count++
		}
		return nil // files may be removed during the walk
	})
	require.NoError(t, err)
	return count
}
