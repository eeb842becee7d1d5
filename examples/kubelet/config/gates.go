package config

import "slices"

// Gates are what can be switched by featureGates, with their defaults.
const (
	// ComponentFlagz serves /flagz (KEP-4828), ComponentStatusz /statusz (KEP-4827).
	ComponentFlagz, ComponentStatusz = "ComponentFlagz", "ComponentStatusz"
)

// switchable are the gates with an effect here, all on by default.
var switchable = []string{ComponentFlagz, ComponentStatusz}

// Enabled tells whether a gate is on.
func (c *Config) Enabled(gate string) bool {
	on, set := c.Kubelet.FeatureGates[gate]
	return on || !set && slices.Contains(switchable, gate)
}
