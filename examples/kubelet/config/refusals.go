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

// refused are flags of upstream's that set nothing here, and why. Empty values and false ask
// for nothing and are taken.
var refused = map[string]string{
	"experimental-mounter-path":                "volumes are mounted by mount(8); CSI drivers mount theirs themselves",
	"experimental-allocatable-ignore-eviction": "what evictionHard keeps free is never for pods",
	"reserved-memory":                          "there is no memory manager yet",
	"vmodule":                                  "verbosity is one number for all files (--v)",
	"log-text-split-stream":                    oneStream,
	"log-text-info-buffer-size":                oneStream,
	"log-json-split-stream":                    oneStream,
	"log-json-info-buffer-size":                oneStream,
	"windows-service":                          noWindows,
	"windows-priorityclass":                    noWindows,
	"housekeeping-interval":                    noCadvisor,
	"application-metrics-count-limit":          noCadvisor,
	"boot-id-file":                             noCadvisor,
	"container-hints":                          noCadvisor,
	"containerd":                               noCadvisor,
	"containerd-namespace":                     noCadvisor,
	"enable-load-reader":                       noCadvisor,
	"event-storage-age-limit":                  noCadvisor,
	"event-storage-event-limit":                noCadvisor,
	"global-housekeeping-interval":             noCadvisor,
	"log-cadvisor-usage":                       noCadvisor,
	"machine-id-file":                          noCadvisor,
	"storage-driver-user":                      noCadvisor,
	"storage-driver-password":                  noCadvisor,
	"storage-driver-host":                      noCadvisor,
	"storage-driver-db":                        noCadvisor,
	"storage-driver-table":                     noCadvisor,
	"storage-driver-secure":                    noCadvisor,
	"storage-driver-buffer-duration":           noCadvisor,
}

// switches are those of them that may be given without a value.
var switches = map[string]bool{
	"experimental-allocatable-ignore-eviction": true, "log-text-split-stream": true, "log-json-split-stream": true, "windows-service": true,
	"enable-load-reader": true, "log-cadvisor-usage": true, "storage-driver-secure": true,
}

func refusals() (out []option) {
	for name, why := range refused {
		isSwitch := switches[name]
		out = append(out, option{group: groupRefused, name: name, refused: why, isSwitch: isSwitch, text: func() string { return "" }, set: func(text string) error {
			if text == "" || isSwitch && text == "false" {
				return nil
			}
			return errors.New("is not taken: " + why)
		}})
	}
	slices.SortFunc(out, func(a, b option) int { return strings.Compare(a.name, b.name) })
	return out
}

// lacking says why fields have no effect, by the begins of their paths.
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

// lack is why a field has no effect; the longest begin that fits says it.
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
