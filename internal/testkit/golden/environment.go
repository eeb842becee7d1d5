package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Environment is the node of recorded and compared requests.
type Environment struct {
	// NodeName is the node's name.
	NodeName string `json:"nodeName"`
	// NodeIP is the node's address.
	NodeIP string `json:"nodeIP"`
	// MemoryBytes is the node's memory.
	MemoryBytes int64 `json:"memoryBytes"`
	// HugePages are the node's huge pages by their size in KiB.
	HugePages map[string]int `json:"hugePages"`
	// PodIPs are the addresses of every sandbox.
	PodIPs []string `json:"podIPs"`
	// ClusterDNS are the cluster's name servers, ClusterDomain is its domain.
	ClusterDNS    []string `json:"clusterDNS"`
	ClusterDomain string   `json:"clusterDomain"`
	// ResolvConf and Hosts are the contents of the node's files of that name.
	ResolvConf string `json:"resolvConf"`
	Hosts      string `json:"hosts"`
	// Images are images with a user. All other images run as root.
	Images []Image `json:"images"`
}

// Image is an image with a user: a number or a name.
type Image struct {
	Name     string `json:"name"`
	UID      *int64 `json:"uid,omitempty"`
	Username string `json:"username,omitempty"`
}

// Recorded describes the circumstances of a recording.
type Recorded struct {
	// Kubelet is the upstream kubelet's version.
	Kubelet string `json:"kubelet"`
	// CgroupV2 is true for a machine with cgroup v2.
	CgroupV2 bool `json:"cgroupV2"`
	// SwapController is true if the machine's cgroups account for swap.
	SwapController bool `json:"swapController"`
	// PodCgroups is true if the kubelet created a cgroup for each pod.
	PodCgroups bool `json:"podCgroups"`
	// Options is true if the kubelet used these settings instead of the defaults:
	// seccompDefault, OptionalCPUPeriod, neither cluster DNS nor resolv.conf.
	Options bool `json:"options"`
	// APIServer is true if the pods came from an API server and were not static.
	APIServer bool `json:"apiServer"`
	// AllocatableCPU and AllocatableMemory are the node's allocatable resources, in millicores
	// and bytes.
	AllocatableCPU    int64 `json:"allocatableCPU"`
	AllocatableMemory int64 `json:"allocatableMemory"`
	// Refused maps pods without a record to the kubelet's reason for not running them on that
	// machine.
	Refused map[string]string `json:"refused,omitempty"`
}

// OptionalCPUPeriod is the period of CPU quotas with Recorded.Options.
const OptionalCPUPeriod = 20 * time.Millisecond

// ReadEnvironment reads environment.json in dir. An unknown field is an error.
func ReadEnvironment(dir string) (Environment, error) {
	var e Environment
	err := readJSON(filepath.Join(dir, "environment.json"), &e)
	return e, err
}

// ReadRecorded reads recorded.json in dir.
func ReadRecorded(dir string) (Recorded, error) {
	var r Recorded
	err := readJSON(filepath.Join(dir, "recorded.json"), &r)
	return r, err
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// WriteJSON writes a value as indented JSON, with a newline at the end.
func WriteJSON(path string, value any) error {
	text, err := Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// Marshal returns the JSON of a value in the format of the files: indented, with sorted keys and
// without HTML escapes.
func Marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
