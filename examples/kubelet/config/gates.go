package config

import (
	"maps"
	"slices"
)

// The feature gates that have an effect here.
const (
	// ComponentFlagz serves /flagz (KEP-4828). ComponentStatusz serves /statusz (KEP-4827).
	ComponentFlagz, ComponentStatusz = "ComponentFlagz", "ComponentStatusz"
	// FSQuotaMonitoring uses quotas of the file system, where supported, to measure emptyDir
	// volumes (KEP-1029). Default: off.
	FSQuotaMonitoring = "LocalStorageCapacityIsolationFSQuotaMonitoring"
)

// switchable are the gates with an effect here that are on by default.
var switchable = []string{ComponentFlagz, ComponentStatusz}

// Enabled reports whether one of these gates is on.
func (c *Config) Enabled(gate string) bool {
	on, set := c.Kubelet.FeatureGates[gate]
	return on || !set && slices.Contains(switchable, gate)
}

// Gate is the state of a feature gate.
type Gate struct {
	Name string
	// Stage is the upstream stage of the feature: ALPHA, BETA, GA or DEPRECATED.
	Stage   string
	Enabled bool
}

// Gates returns the state of all feature gates, sorted by name, including gates of other
// components.
func (c *Config) Gates() (out []Gate) {
	all := gates()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		on, set := c.Kubelet.FeatureGates[name]
		out = append(out, Gate{name, all[name].stage, on || !set && all[name].preset})
	}
	return out
}
