package config

import (
	"errors"
	"slices"
	"strings"
)

const groupRefused = "Flags of the upstream kubelet that are not taken"

const (
	noCadvisor = "there is no cAdvisor in this kubelet"
	oneStream  = "the log is one stream on standard error"
	noWindows  = "this kubelet runs on Linux"
)

// refused are upstream flags without effect here, by reason. Empty values and false are accepted.
var refused = map[string][]string{
	"volumes are mounted by mount(8); CSI drivers mount theirs themselves": {"experimental-mounter-path"},
	"what evictionHard keeps free is never for pods":                       {"experimental-allocatable-ignore-eviction"},
	"there is no memory manager yet":                                       {"reserved-memory"},
	"verbosity is one number for all files (--v)":                          {"vmodule"},
	oneStream: {"log-text-split-stream", "log-text-info-buffer-size", "log-json-split-stream", "log-json-info-buffer-size"},
	noWindows: {"windows-service", "windows-priorityclass"},
	noCadvisor: {
		"housekeeping-interval", "global-housekeeping-interval", "application-metrics-count-limit", "boot-id-file", "machine-id-file", "container-hints",
		"containerd", "containerd-namespace", "enable-load-reader", "event-storage-age-limit", "event-storage-event-limit", "log-cadvisor-usage",
		"storage-driver-user", "storage-driver-password", "storage-driver-host", "storage-driver-db", "storage-driver-table", "storage-driver-secure",
		"storage-driver-buffer-duration",
	},
}

// switches are the refused flags that need no value.
var switches = []string{
	"experimental-allocatable-ignore-eviction", "log-text-split-stream", "log-json-split-stream", "windows-service",
	"enable-load-reader", "log-cadvisor-usage", "storage-driver-secure",
}

func refusals() (out []option) {
	for why, names := range refused {
		for _, name := range names {
			isSwitch := slices.Contains(switches, name)
			out = append(out, option{group: groupRefused, name: name, refused: why, isSwitch: isSwitch, text: func() string { return "" }, set: func(text string) error {
				if text == "" || isSwitch && text == "false" {
					return nil
				}
				return errors.New("is not taken: " + why)
			}})
		}
	}
	slices.SortFunc(out, func(a, b option) int { return strings.Compare(a.name, b.name) })
	return out
}

// lacking are the reasons why fields have no effect, by prefixes of their paths.
var lacking = map[string]string{
	"qosReserved":            "upstream's is alpha; nothing is kept for better classes",
	"kubeletCgroups":         "the kubelet stays in the cgroup in which it was started, which is the service manager's matter",
	"systemCgroups":          "processes of the system stay where its service manager has put them",
	"memoryThrottlingFactor": "it takes the gate MemoryQoS, which is alpha and not built",
	"cpuManager":             noManagers, "memoryManager": noManagers, "topologyManager": noManagers, "reservedMemory": noManagers,
	"runOnce":                   "upstream refuses it, too",
	"volumePluginDir":           "flexvolume is not supported",
	"iptables":                  "packets are marked by kube-proxy",
	"hairpinMode":               "networks are the runtime's",
	"podCIDR":                   "networks are the runtime's",
	"enableContentionProfiling": "locks are not profiled",
	"logging":                   oneStream,
}

const (
	noManagers = "managers of CPUs, memory and topology are not built yet"
)

// lack returns the reason why a field has no effect. The longest matching prefix counts.
func lack(path string) string {
	best := ""
	for begin := range lacking {
		if strings.HasPrefix(path, begin) && len(begin) > len(best) {
			best = begin
		}
	}
	if best == "" {
		return ""
	}
	return ": " + lacking[best]
}
