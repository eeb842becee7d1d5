package cluster_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// behaviour is one documented behaviour of a pod, as covered by the conformance tests of Kubernetes
// for a node. complete fills in the omitted fields of the pod.
type behaviour struct {
	name string
	// before has objects that the pod refers to, as YAML. NS and NODE are replaced.
	before string
	// meta and spec belong to the pod, as YAML.
	meta, spec string
	// phase is the final phase of the pod; v1.PodRunning includes readiness. Optional: without it
	// only the following conditions count.
	phase v1.PodPhase
	// logs are regular expressions, each with a match in the log of container.
	logs []string
	// container is the container's name. Default: the first one.
	container string
	// fields maps JSON paths of the pod to regular expressions for the whole value.
	fields map[string]string
	// then runs after all conditions hold.
	then func(t *testing.T, n *node, pod string)
}

var behaviours = map[string][]behaviour{
	"start and end": startAndEnd,
	"init":          inits,
	"environment":   environments,
	"files":         filesOfPods,
	"folders":       foldersOfPods,
	"admission":     admissions,
	"security":      securities,
	"network":       networks,
	"probes":        probings,
	"hooks":         hooks,
	"status":        statuses,
	"changes":       changes,
}

var onlyBehaviours = flag.String("behaviours", "", "regular expression of the behaviours that TestBehaviour checks; default: all")

// One node shows all behaviours at the same time, as with the many pods of a real node.
func TestBehaviour(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) { n.checkBehaviours(t, 1) }, "--cluster-domain=cluster.local")
}

// The upstream kubelet shows the same behaviours on both runtimes, so that the table contains only
// behaviours that users may expect, and intended differences. Without upstreamVariable the test
// builds that kubelet and checks a tenth of them on the newest runtime.
func TestBehaviourUpstream(t *testing.T) {
	runtimes, upstream, share := tb.Runtimes(t), os.Getenv(upstreamVariable), 1
	if upstream == "" {
		upstream, share, runtimes = controlplane.Of(t).Program(t, "kubelet"), 10, runtimes[len(runtimes)-1:]
	}
	onEach(t, runtimes, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		n := newStoppedNode(t, plane, rt, func(n *node) { n.binary = upstream },
			"--cluster-domain=cluster.local", "--cgroups-per-qos=false", "--enforce-node-allocatable=", "--cgroup-root=", "--make-iptables-util-chains=false")
		n.start(t)
		n.nodeReady(t)
		n.checkBehaviours(t, share)
	})
}

// batchSize is the number of pods that a node starts at a time. Two cores may start only 4 pods/s.
const batchSize = 12

// checkBehaviours creates the pods in batches and checks them. With share n it checks the first 1/n
// of each area. The pods stay until the test ends.
func (n *node) checkBehaviours(t *testing.T, share int) {
	t.Helper()
	only := regexp.MustCompile(*onlyBehaviours)
	var all []behaviour
	var before strings.Builder // of all behaviours: some share an object
	for area, list := range behaviours {
		for i, b := range list {
			if b.before != "" {
				before.WriteString("\n---\n" + b.before)
			}
			if b.name = area + ": " + b.name; i%share == 0 && only.MatchString(b.name) {
				all = append(all, b)
			}
		}
	}
	if before.Len() > 0 {
		n.apply(t, before.String())
	}
	places := make(chan struct{}, batchSize)
	var playing sync.WaitGroup
	for i := range all {
		pod := all[i].complete(t, n)
		playing.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			t.Run(all[i].name, func(t *testing.T) {
				n.create(t, pod)
				n.waitBehaviour(t, &all[i], pod.Name)
			})
		})
	}
	playing.Wait()
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// complete returns the pod of a behaviour. Defaults: bound to the node, busybox as image, no grace
// period, no restarts.
func (b *behaviour) complete(t *testing.T, n *node) *v1.Pod {
	t.Helper()
	words := strings.NewReplacer("NODE", n.name, "NS", n.namespace, "BUSYBOX", n.images.Busybox, "TESTPROG2", n.images.Testprog2, "TESTPROG", n.images.Testprog, "HOSTDIR", n.dir)
	pod := &v1.Pod{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(words.Replace(b.meta)), &pod.ObjectMeta), b.name)
	require.NoError(t, yaml.UnmarshalStrict([]byte(words.Replace(b.spec)), &pod.Spec), b.name)
	pod.Name, pod.Namespace = strings.Trim(notInNames.ReplaceAllString(strings.ToLower(b.name), "-"), "-"), n.namespace
	pod.Name = strings.Trim(pod.Name[:min(len(pod.Name), 60)], "-")
	s := &pod.Spec
	s.NodeName = n.name
	if s.RestartPolicy == "" {
		s.RestartPolicy = v1.RestartPolicyNever
	}
	if s.TerminationGracePeriodSeconds == nil {
		s.TerminationGracePeriodSeconds = new(int64(1))
	}
	for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			c := &list[i]
			if c.Image == "" {
				c.Image = n.images.Busybox
			}
			if c.Name == "" {
				c.Name = "c"
			}
			if c.ImagePullPolicy == "" {
				c.ImagePullPolicy = v1.PullIfNotPresent
			}
		}
	}
	if b.container == "" && len(s.Containers) > 0 {
		b.container = s.Containers[0].Name
	}
	return pod
}

func (n *node) create(t *testing.T, pod *v1.Pod) {
	t.Helper()
	body, err := json.Marshal(pod)
	require.NoError(t, err)
	response, err := n.reader.http.Post(n.reader.url+"/api/v1/namespaces/"+n.namespace+"/pods", "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	require.Equal(t, http.StatusCreated, response.StatusCode, "%s: %s", pod.Name, text)
}

// waitBehaviour waits until a pod fulfils its behaviour.
func (n *node) waitBehaviour(t *testing.T, b *behaviour, name string) {
	t.Helper()
	n.until(t, name, func() error {
		pod, err := n.pod(name)
		if err != nil {
			return err
		}
		if err := b.matches(pod); err != nil || len(b.logs) == 0 {
			return err
		}
		log, err := n.logOf(name, b.container)
		if err != nil {
			return err
		}
		for _, want := range b.logs {
			if !regexp.MustCompile("(?m)" + want).MatchString(log) {
				return fmt.Errorf("no %s in the log: %s", want, log)
			}
		}
		return nil
	})
	if b.then != nil {
		b.then(t, n, name)
	}
}

func (b *behaviour) matches(pod *v1.Pod) error {
	status, _ := json.Marshal(pod.Status)
	if b.phase != "" && (pod.Status.Phase != b.phase || b.phase == v1.PodRunning && !isReady(pod)) {
		return fmt.Errorf("not %s: %s", b.phase, status)
	}
	for path, want := range b.fields {
		got, err := fieldOf(pod, path)
		if err != nil {
			return err
		}
		if !regexp.MustCompile("^(?s:" + want + ")$").MatchString(got) {
			return fmt.Errorf("%s is %q, not %s: %s", path, got, want, status)
		}
	}
	return nil
}

// fieldOf returns the output of kubectl get -o jsonpath= for an object.
func fieldOf(object any, path string) (string, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return "", err
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return "", err
	}
	return evaluate(plain, "{"+path+"}")
}

func (n *node) pod(name string) (*v1.Pod, error) {
	pod := &v1.Pod{}
	found, err := n.reader.read("/api/v1/namespaces/"+n.namespace+"/pods/"+name, pod)
	if err == nil && !found {
		err = errors.New("no such pod")
	}
	return pod, err
}

// logOf returns the log of a container, read through the API server.
func (n *node) logOf(pod, container string) (string, error) {
	response, err := n.reader.http.Get(n.reader.url + "/api/v1/namespaces/" + n.namespace + "/pods/" + pod + "/log?container=" + container)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return string(text), err
}

// requireFieldStays fails the test if a field of a pod differs from want within d.
func (n *node) requireFieldStays(t *testing.T, pod string, d time.Duration, path, want string) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < d; time.Sleep(300 * time.Millisecond) {
		p, err := n.pod(pod)
		require.NoError(t, err)
		got, err := fieldOf(p, path)
		require.NoError(t, err)
		require.Equal(t, want, got, path)
	}
}

// waitPodEvent waits for an event about a pod with a matching message.
func (n *node) waitPodEvent(t *testing.T, pod, reason, message string) {
	t.Helper()
	n.waitEvent(t, "Pod", pod, reason, message)
}

// waitEvent waits for an event about an object with a matching message.
func (n *node) waitEvent(t *testing.T, kind, name, reason, message string) {
	t.Helper()
	n.until(t, "event "+reason+" of "+name, func() error {
		var list v1.EventList
		if _, err := n.reader.read("/api/v1/namespaces/"+n.namespace+"/events?fieldSelector=involvedObject.kind="+kind+",involvedObject.name="+name, &list); err != nil {
			return err
		}
		var events []string
		for _, e := range list.Items {
			if e.Reason == reason && regexp.MustCompile(message).MatchString(e.Message) {
				return nil
			}
			events = append(events, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("events: %s", strings.Join(events, "; "))
	})
}
