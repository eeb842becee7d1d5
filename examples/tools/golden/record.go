package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/testkit/golden"
)

// quiet is the time without a new request after which the record is complete. It is longer than
// the kubelet needs between two containers of a pod, and shorter than its first back-off after a
// second failure.
const quiet = 8 * time.Second

// podsTimeout bounds the time for all pods.
const podsTimeout = 3 * time.Minute

// record runs in the namespaces. It runs the pods with the kubelet and writes its requests to
// files.
func record(ctx context.Context, o options) error {
	e, err := golden.ReadEnvironment(o.dir)
	if err != nil {
		return err
	}
	names, err := manifestNames(o)
	if err != nil {
		return err
	}
	if err := setUpNamespaces(e); err != nil {
		return err
	}
	if o.set == golden.Cgroup2 {
		if err := cgroup2(); err != nil {
			return err
		}
	}
	rt, err := golden.NewRuntime(e)
	if err != nil {
		return err
	}
	defer rt.Close()
	server, err := serve(rt)
	if err != nil {
		return err
	}
	defer server.Stop()
	place := copyManifests
	if o.set == golden.Cluster {
		place = startCluster
	}
	remove, err := place(o, e, names)
	if err != nil {
		return err
	}
	defer remove()
	kubelet, err := startKubelet(o, e, os.Getenv(cgroupVariable))
	if err != nil {
		return err
	}
	defer kubelet.stop()
	r := &recorder{options: o, environment: e, runtime: rt, kubelet: kubelet, names: names}
	if err := r.wait(ctx); err != nil {
		return err
	}
	return r.write(ctx)
}

func serve(rt *golden.Runtime) (*grpc.Server, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(rt.ServerOptions()...)
	fake.Register(server, rt, rt.Runtime)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	return server, nil
}

func manifestNames(o options) ([]string, error) {
	if o.only != "" {
		return strings.Split(o.only, ","), nil
	}
	patterns := []string{"*"}
	switch o.set {
	case golden.Cgroup2:
		patterns = []string{"resources-*", "critical*"}
	case golden.Options:
		patterns = []string{"resources-small", "resources-burstable", "seccomp*", "dns-*", "privileged"}
	}
	var names []string
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(o.manifests(), pattern+".yaml"))
		if err != nil || len(paths) == 0 {
			return nil, fmt.Errorf("no manifests %s in %s: %w", pattern, o.manifests(), os.ErrNotExist)
		}
		for _, path := range paths {
			names = append(names, strings.TrimSuffix(filepath.Base(path), ".yaml"))
		}
	}
	if o.set == golden.Cgroup2 { // without pod cgroups the kubelet panics in resizes
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "resources-pod-level") })
	}
	return names, nil
}

// copyManifests writes the static pods' manifests. The returned function does nothing.
func copyManifests(o options, _ golden.Environment, names []string) (func(), error) {
	if err := os.MkdirAll(staticPods, 0o755); err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, err := readManifest(o, name); err != nil {
			return nil, err
		}
		text, err := os.ReadFile(filepath.Join(o.manifests(), name+".yaml"))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(staticPods, name+".yaml"), text, 0o644); err != nil {
			return nil, err
		}
	}
	return func() {}, nil
}

// readManifest reads a manifest. An unknown field or a wrong UID is an error.
func readManifest(o options, name string) (*v1.Pod, error) {
	text, err := os.ReadFile(filepath.Join(o.manifests(), name+".yaml"))
	if err != nil {
		return nil, err
	}
	pod := &v1.Pod{}
	if err := yaml.UnmarshalStrict(text, pod); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if string(pod.UID) != uid(name) {
		return nil, fmt.Errorf("%s: metadata.uid is %q, not %q", name, pod.UID, uid(name))
	}
	return pod, nil
}

func uid(name string) string { return "uid-" + name }

type recorder struct {
	options
	environment golden.Environment
	runtime     *golden.Runtime
	kubelet     *kubelet
	names       []string
	// waitingFor are the pods without all their requests.
	waitingFor []string
}

// wait returns when all pods are complete and quiet has passed without a request.
func (r *recorder) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	count, since := 0, time.Now()
	for ctx.Err() == nil {
		time.Sleep(200 * time.Millisecond)
		if err := r.kubelet.failure(); err != nil {
			return err
		}
		if _, now := r.runtime.Requests(""); now != count {
			count, since = now, time.Now()
		}
		if count > 0 && time.Since(since) > quiet && r.complete(ctx) {
			return nil
		}
	}
	return fmt.Errorf("%w; still waiting for %s", context.Cause(ctx), strings.Join(r.waitingFor, ", "))
}

// complete reports whether the kubelet has made all requests of each pod or rejected the pod.
func (r *recorder) complete(ctx context.Context) bool {
	pods, _, err := pods(ctx)
	if err != nil {
		return false
	}
	r.waitingFor = nil
	for _, name := range r.names {
		pod, known := pods[uid(name)]
		if !known || pod.Status.Phase == v1.PodFailed {
			continue
		}
		requests, _ := r.runtime.Requests(uid(name))
		if len(requests.Containers) < len(pod.Spec.InitContainers)+len(pod.Spec.Containers)+len(pod.Spec.EphemeralContainers) {
			r.waitingFor = append(r.waitingFor, name)
		}
	}
	return len(r.waitingFor) == 0
}

func (r *recorder) write(ctx context.Context) error {
	dir := r.folder()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	pods, texts, err := pods(ctx)
	if err != nil {
		return err
	}
	recorded, err := r.facts(ctx)
	if err != nil {
		return err
	}
	for _, name := range r.names {
		path := filepath.Join(dir, name+".json")
		requests, _ := r.runtime.Requests(uid(name))
		if pod := pods[uid(name)]; len(requests.Containers) == 0 {
			recorded.Refused[name] = "manifest not accepted"
			if pod.Name != "" {
				recorded.Refused[name] = pod.Status.Reason + ": " + pod.Status.Message
			}
			_ = os.Remove(path)
			continue
		}
		record, err := r.record(texts[uid(name)], requests)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := golden.WriteJSON(path, record); err != nil {
			return err
		}
	}
	fmt.Printf("recorded %d pods, %d were rejected\n", len(r.names)-len(recorded.Refused), len(recorded.Refused))
	if r.only != "" {
		return nil
	}
	return golden.WriteJSON(filepath.Join(dir, "recorded.json"), recorded)
}

func (r *recorder) record(pod json.RawMessage, requests golden.Requests) (golden.Record, error) {
	c := golden.Canonical{Replace: []string{"/" + os.Getenv(cgroupVariable) + "/kubepods", "/kubepods"}}
	record, err := c.Record(requests)
	if err != nil {
		return record, err
	}
	record.Pod, err = withoutVolatileFields(pod)
	return record, err
}

// withoutVolatileFields returns a pod without its status and the fields that differ in each run.
func withoutVolatileFields(text json.RawMessage) (json.RawMessage, error) {
	var pod map[string]any
	if err := json.Unmarshal(text, &pod); err != nil {
		return nil, err
	}
	delete(pod, "status")
	if metadata, ok := pod["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
		delete(metadata, "managedFields")
		delete(metadata, "resourceVersion")
		if annotations, ok := metadata["annotations"].(map[string]any); ok && annotations["kubernetes.io/config.seen"] != nil {
			annotations["kubernetes.io/config.seen"] = "SEEN"
		}
	}
	return json.Marshal(pod)
}

// facts returns the properties of the kubelet and the machine that affect the records.
func (r *recorder) facts(ctx context.Context) (golden.Recorded, error) {
	version, err := exec.CommandContext(ctx, r.options.kubelet, "--version").Output()
	if err != nil {
		return golden.Recorded{}, fmt.Errorf("version of the kubelet: %w", err)
	}
	facts := golden.Recorded{Refused: map[string]string{}}
	facts.Kubelet = strings.TrimSpace(strings.TrimPrefix(string(version), "Kubernetes "))
	_, err = os.Stat(cgroupMount + "/cgroup.controllers")
	facts.CgroupV2 = err == nil
	_, err = os.Stat(cgroupMount + "/memory/memory.memsw.limit_in_bytes")
	facts.SwapController = err == nil
	facts.PodCgroups = r.set != golden.Cgroup2
	facts.Options = r.set == golden.Options
	facts.APIServer = r.set == golden.Cluster
	facts.AllocatableCPU = 1000 * int64(runtime.NumCPU())
	facts.AllocatableMemory = r.environment.MemoryBytes - r.hugePageBytes()
	return facts, nil
}

func (r *recorder) hugePageBytes() int64 {
	var sum int64
	for size, count := range r.environment.HugePages {
		var kib int64
		_, _ = fmt.Sscan(size, &kib)
		sum += kib << 10 * int64(count)
	}
	return sum
}
