package config

import (
	"fmt"
	"slices"
)

// Gates are what can be switched by featureGates, with their defaults.
const (
	// ComponentFlagz serves /flagz (KEP-4828), ComponentStatusz /statusz (KEP-4827).
	ComponentFlagz, ComponentStatusz = "ComponentFlagz", "ComponentStatusz"
)

// switchable are the gates with an effect here, all on by default.
var switchable = []string{ComponentFlagz, ComponentStatusz}

// alwaysOn are gates whose behaviour is there whether they are named or not.
var alwaysOn = []string{
	"ContainerCheckpoint", "InPlacePodVerticalScaling", "ImageVolume", "KubeletFineGrainedAuthz", "NodeLogQuery", "RecursiveReadOnlyMounts",
	"RotateKubeletServerCertificate", "SupplementalGroupsPolicy", "SystemdWatchdog", "UserNamespacesSupport",
}

// Enabled tells whether a gate is on.
func (c *Config) Enabled(gate string) bool {
	on, set := c.Kubelet.FeatureGates[gate]
	return on || !set && slices.Contains(switchable, gate)
}

// gates are the errors of featureGates: of what is on that is not there, and off that always
// is.
func gates(set map[string]any) (errs []error) {
	for _, name := range sortedKeys(set) {
		on, isBool := set[name].(bool)
		always := slices.Contains(alwaysOn, name)
		switch {
		case !isBool: // the decoder has said so
		case always && !on:
			errs = append(errs, fmt.Errorf("featureGates.%s: false: this kubelet cannot do without", name))
		case on && !always && !slices.Contains(switchable, name):
			errs = append(errs, fmt.Errorf("featureGates.%s: true asks for behaviour that this kubelet does not have", name))
		}
	}
	return errs
}
