package config

import (
	"maps"
	"slices"
)

// Gates are what can be switched by featureGates.
const (
	// ComponentFlagz serves /flagz (KEP-4828), ComponentStatusz /statusz (KEP-4827).
	ComponentFlagz, ComponentStatusz = "ComponentFlagz", "ComponentStatusz"
	// FSQuotaMonitoring has file systems count what is in emptyDir volumes, where they can
	// (KEP-1029). It is off by default.
	FSQuotaMonitoring = "LocalStorageCapacityIsolationFSQuotaMonitoring"
)

// switchable are the gates with an effect here that are on by default.
var switchable = []string{ComponentFlagz, ComponentStatusz}

// Enabled tells whether a gate is on.
func (c *Config) Enabled(gate string) bool {
	on, set := c.Kubelet.FeatureGates[gate]
	return on || !set && slices.Contains(switchable, gate)
}

// Gate is a feature gate as it is set.
type Gate struct {
	Name string
	// Stage is how far the feature has come upstream: ALPHA, BETA, GA or DEPRECATED.
	Stage   string
	Enabled bool
}

// Gates are all feature gates, by name, those of other components included.
func (c *Config) Gates() (out []Gate) {
	all := gates()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		on, set := c.Kubelet.FeatureGates[name]
		out = append(out, Gate{name, all[name].stage, on || !set && all[name].preset})
	}
	return out
}
