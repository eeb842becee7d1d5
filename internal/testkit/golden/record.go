package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Record has the requests to the runtime for one pod.
type Record struct {
	// Pod is the agent's pod with all defaults, as JSON of v1.Pod.
	Pod json.RawMessage `json:"pod"`
	// Sandboxes are the RunPodSandbox requests, in order.
	Sandboxes []any `json:"sandboxes"`
	// Containers are the CreateContainer requests, in order.
	Containers []Container `json:"containers"`
}

// Container is one CreateContainer request.
type Container struct {
	// Config is the container's configuration.
	Config any `json:"config"`
	// SandboxConfig is the sandbox configuration of the request, or SameSandbox.
	SandboxConfig any `json:"sandboxConfig"`
	// Hosts is the content of the file that is mounted at /etc/hosts when the container is
	// created, or nil.
	Hosts *string `json:"hosts,omitempty"`
}

// SameSandbox replaces a sandbox configuration that is equal to the newest RunPodSandbox
// request.
const SameSandbox = "the sandbox's"

// Folders of further records.
const (
	// Cgroup2 is the folder of the records made on cgroup v2.
	Cgroup2 = "cgroup2"
	// Options is the folder of the records made with Recorded.Options.
	Options = "options"
	// Cluster is the folder of the records of pods that an API server bound to the node.
	Cluster = "cluster"
)

// ReadRecord reads the record of a pod in dir.
func ReadRecord(dir, name string) (Record, error) {
	var r Record
	err := readJSON(filepath.Join(dir, name+".json"), &r)
	return r, err
}

// Canonical converts requests into plain JSON values and replaces values that vary between
// recordings. The zero value replaces only the values that no environment can fix.
type Canonical struct {
	// Replace are pairs of texts: each occurrence of the first in a string is replaced by the
	// second.
	Replace []string
}

// Sandbox returns the JSON value of a RunPodSandbox request. It sorts the resolver's options,
// because upstream sends them in random order.
func (c Canonical) Sandbox(r *runtimeapi.RunPodSandboxRequest) (any, error) {
	r = proto.CloneOf(r)
	slices.Sort(r.GetConfig().GetDnsConfig().GetOptions())
	return c.value(r)
}

// SandboxConfig returns the JSON value of a sandbox configuration, in the format of a request.
func (c Canonical) SandboxConfig(config *runtimeapi.PodSandboxConfig) (any, error) {
	config = proto.CloneOf(config)
	slices.Sort(config.GetDnsConfig().GetOptions())
	return c.value(config)
}

// ContainerConfig returns the JSON value of a container's configuration. It sorts variables,
// because upstream sends them in random order, and writes them as text instead of the protocol's
// bytes. It also sorts limits of huge pages, whose order is the order of a kernel folder.
func (c Canonical) ContainerConfig(config *runtimeapi.ContainerConfig) (any, error) {
	config = proto.CloneOf(config)
	envs := config.Envs
	config.Envs = nil
	slices.SortFunc(config.GetLinux().GetResources().GetHugepageLimits(), func(a, b *runtimeapi.HugepageLimit) int {
		return strings.Compare(a.PageSize, b.PageSize)
	})
	value, err := c.value(config)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(envs, func(a, b *runtimeapi.KeyValue) int {
		return strings.Compare(a.Key, b.Key)
	})
	var out []any
	for _, env := range envs {
		out = append(out, map[string]any{"key": env.Key, "value": string(env.Value)})
	}
	if fields, ok := value.(map[string]any); ok && len(out) > 0 {
		fields["envs"] = c.walk(out, strings.NewReplacer(c.Replace...))
	}
	return value, nil
}

// Record records the requests of a pod. The caller adds the pod itself.
func (c Canonical) Record(requests Requests) (Record, error) {
	record := Record{Sandboxes: []any{}, Containers: []Container{}}
	var same any
	for _, request := range requests.Sandboxes {
		value, err := c.Sandbox(request)
		if err != nil {
			return record, err
		}
		record.Sandboxes = append(record.Sandboxes, value)
		if same, err = c.SandboxConfig(request.Config); err != nil {
			return record, err
		}
	}
	for i, request := range requests.Containers {
		container := Container{SandboxConfig: SameSandbox}
		var err error
		if container.Config, err = c.ContainerConfig(request.Config); err != nil {
			return record, err
		}
		sandbox, err := c.SandboxConfig(request.SandboxConfig)
		if err != nil {
			return record, err
		}
		if !reflect.DeepEqual(sandbox, same) {
			container.SandboxConfig = sandbox
		}
		if hosts := requests.Hosts[i]; hosts != "" {
			container.Hosts = &hosts
		}
		record.Containers = append(record.Containers, container)
	}
	return record, nil
}

func (c Canonical) value(message proto.Message) (any, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
	if err != nil {
		return nil, err
	}
	var out any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&out); err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return c.walk(out, strings.NewReplacer(c.Replace...)), nil
}

// walk replaces texts in every string inside a value, and random values: names of message files,
// times, the first user of a user namespace, container IDs.
func (c Canonical) walk(value any, replacer *strings.Replacer) any {
	switch v := value.(type) {
	case string:
		return messageFile.ReplaceAllString(replacer.Replace(v), "${1}MESSAGE")
	case []any:
		v = slices.DeleteFunc(v, isThrottle)
		for i := range v {
			v[i] = c.walk(v[i], replacer)
		}
		return v
	case map[string]any:
		for key := range v {
			v[key] = c.walk(v[key], replacer)
		}
		if _, ok := v[seenAnnotation]; ok {
			v[seenAnnotation] = "SEEN"
		}
		for _, random := range []string{"host_id", "target_id"} {
			if _, ok := v[random]; ok {
				v[random] = strings.ToUpper(random)
			}
		}
	}
	return value
}

// messageFile matches the path of a container's termination message, whose name is random.
var messageFile = regexp.MustCompile(`^(/var/lib/kubelet/pods/[^/]+/containers/[^/]+/)[^/]+$`)

// seenAnnotation has the time at which a manifest was read.
const seenAnnotation = "kubernetes.io/config.seen"

// isThrottle reports whether a masked path exists only on machines with certain processors.
func isThrottle(value any) bool {
	path, _ := value.(string)
	ok, _ := filepath.Match("/sys/devices/system/cpu/cpu*/thermal_throttle", path)
	return ok
}
