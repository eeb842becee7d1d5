package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Environment is the node that requests are recorded on and built for.
type Environment struct {
	// NodeName is the node's name.
	NodeName string `json:"nodeName"`
	// NodeIP is the node's address.
	NodeIP string `json:"nodeIP"`
	// MemoryBytes is the node's memory.
	MemoryBytes int64 `json:"memoryBytes"`
	// HugePages are the huge pages the node has, by their size in KiB.
	HugePages map[string]int `json:"hugePages"`
	// PodIPs are the addresses of every sandbox.
	PodIPs []string `json:"podIPs"`
	// ClusterDNS are the cluster's name servers, ClusterDomain is its domain.
	ClusterDNS    []string `json:"clusterDNS"`
	ClusterDomain string   `json:"clusterDomain"`
	// ResolvConf and Hosts are the contents of the node's files of that name.
	ResolvConf string `json:"resolvConf"`
	Hosts      string `json:"hosts"`
	// Images are images that name a user. All other images are root's.
	Images []Image `json:"images"`
}

// Image is an image with a user, a number or a name.
type Image struct {
	Name     string `json:"name"`
	UID      *int64 `json:"uid,omitempty"`
	Username string `json:"username,omitempty"`
}

// Recorded says what the records were made with.
type Recorded struct {
	// Kubelet is the upstream kubelet's version.
	Kubelet string `json:"kubelet"`
	// CgroupV2 tells which hierarchy of cgroups the machine had.
	CgroupV2 bool `json:"cgroupV2"`
	// SwapController tells that the machine's cgroups account for swap.
	SwapController bool `json:"swapController"`
	// PodCgroups tells that the kubelet made a cgroup for each pod.
	PodCgroups bool `json:"podCgroups"`
	// Options tells that the kubelet had these settings, and not the defaults:
	// seccompDefault, OptionalCPUPeriod, neither cluster DNS nor resolv.conf.
	Options bool `json:"options"`
	// APIServer tells that the pods came from an API server, and are not static.
	APIServer bool `json:"apiServer"`
	// AllocatableCPU and AllocatableMemory are what the node had to give to
	// pods: millicores and bytes.
	AllocatableCPU    int64 `json:"allocatableCPU"`
	AllocatableMemory int64 `json:"allocatableMemory"`
	// Refused are pods that the kubelet did not run on that machine, with the
	// reason it gave. They have no record.
	Refused map[string]string `json:"refused,omitempty"`
}

// OptionalCPUPeriod is the period of CPU quotas with Recorded.Options.
const OptionalCPUPeriod = 20 * time.Millisecond

// ReadEnvironment reads environment.json in dir. A field that it does not know
// is an error.
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

// Marshal is the JSON of a value in the form of the files: indented, keys of
// maps in order, nothing escaped that need not be.
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
