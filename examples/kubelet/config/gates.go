package config

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// gateList contains the feature gates of Kubernetes v1.36: name, default, class and stage.
//
//go:embed gatelist.txt
var gateList string

// The feature gates that have an effect here.
const (
	// ComponentFlagz serves /flagz (KEP-4828). ComponentStatusz serves /statusz (KEP-4827).
	ComponentFlagz, ComponentStatusz = "ComponentFlagz", "ComponentStatusz"
	// ContainerCheckpoint serves /checkpoint (KEP-2008).
	ContainerCheckpoint = "ContainerCheckpoint"
	// FSQuotaMonitoring uses quotas of the file system, where supported, to measure emptyDir
	// volumes (KEP-1029). Default: off.
	FSQuotaMonitoring = "LocalStorageCapacityIsolationFSQuotaMonitoring"
	// InUserNamespace tolerates kernel parameters that a user namespace cannot change (KEP-2033).
	// Default: off.
	InUserNamespace = "KubeletInUserNamespace"

	verifyPulledImages = "KubeletEnsureSecretPulledImages"
	allAlpha, allBeta  = "AllAlpha", "AllBeta"
)

// The classes of gates, by the treatment of a value that is not the default.
const (
	anyGate     = "any"     // accepted: it belongs to another component or changes no behaviour here
	switchGate  = "switch"  // implemented
	onGate      = "on"      // false causes a warning: this kubelet always has the feature
	offGate     = "off"     // true causes a warning: this kubelet lacks the feature
	tiedGate    = "tied"    // refused if a setting needs the default
	refusedGate = "refused" // refused: it needs isolation, safety or accounting
	lockedGate  = "locked"  // refused, as upstream
)

// gateReasons are the reasons of refused gates.
var gateReasons = map[string]string{
	"MemoryQoS": "this kubelet sets neither memory.high nor memory.min",
}

type gate struct {
	preset bool
	class  string
	stage  string
}

func gates() map[string]gate {
	all := map[string]gate{}
	for line := range strings.Lines(gateList) {
		if f := strings.Fields(line); len(f) == 4 {
			all[f[0]] = gate{preset: f[1] == "true", class: f[2], stage: f[3]}
		}
	}
	return all
}

// gateValues returns the values of all gates. AllAlpha and AllBeta set the gates of a stage that
// are not set themselves.
func gateValues(k *kubeletv1beta1.KubeletConfiguration) map[string]bool {
	all, out := gates(), map[string]bool{}
	for name, g := range all {
		out[name] = g.preset
		for group, stage := range map[string]string{allAlpha: "ALPHA", allBeta: "BETA"} {
			if on, ok := k.FeatureGates[group]; ok && g.stage == stage {
				out[name] = on
			}
		}
	}
	for name, on := range k.FeatureGates {
		if _, ok := all[name]; ok {
			out[name] = on
		}
	}
	return out
}

// user returns the settings that need the default of a gate, or "" if they do not use it. A gate
// without a user changes no behaviour.
func (c *Config) user(gate string) string {
	k := &c.Kubelet
	used := func(condition bool, setting string) string {
		if condition {
			return setting
		}
		return ""
	}
	byPriority := len(k.ShutdownGracePeriodByPodPriority) > 0
	switch gate {
	case "AllowDNSOnlyNodeCSR", "RotateKubeletServerCertificate":
		return used(k.ServerTLSBootstrap, "serverTLSBootstrap")
	case "CustomCPUCFSQuotaPeriod":
		return used(k.CPUCFSQuotaPeriod.Duration != 100*time.Millisecond, "cpuCFSQuotaPeriod")
	case "GracefulNodeShutdown":
		return used(byPriority || k.ShutdownGracePeriod.Duration != 0, "shutdownGracePeriod, shutdownGracePeriodByPodPriority")
	case "GracefulNodeShutdownBasedOnPodPriority":
		return used(byPriority, "shutdownGracePeriodByPodPriority")
	case "KubeletCrashLoopBackOffMax":
		return used(k.CrashLoopBackOff.MaxContainerRestartPeriod.Duration != 5*time.Minute, "crashLoopBackOff.maxContainerRestartPeriod")
	case "KubeletServiceAccountTokenForCredentialProviders":
		return used(c.Flags.CredentialProviderConfig != "", "--image-credential-provider-config")
	case "NodeDeclaredFeatures", "KubeletRegistrationGetOnExistsOnly":
		return used(c.Flags.Kubeconfig != "", "--kubeconfig")
	case "PreventStaticPodAPIReferences":
		return used(k.StaticPodPath != "" || k.StaticPodURL != "", "staticPodPath, staticPodURL")
	case "QOSReserved":
		return used(len(k.QOSReserved) > 0, "qosReserved")
	case "ReloadKubeletClientCAFile":
		return used(k.Authentication.X509.ClientCAFile != "", "authentication.x509.clientCAFile")
	case "ReloadKubeletServerCertificateFile":
		return used(k.TLSCertFile != "", "tlsCertFile")
	}
	return "pods"
}

// classifyGates adds a warning for each gate without effect and returns an error for each refused
// one. Gates of other components are accepted, because clusters often give one list to all
// components.
func (c *Config) classifyGates() (errs problems) {
	all, values := gates(), gateValues(&c.Kubelet)
	for _, name := range slices.Sorted(maps.Keys(c.Kubelet.FeatureGates)) {
		if _, ok := all[name]; !ok {
			text := "not a feature gate of Kubernetes v1.36"
			if similar := nearest(name, slices.Sorted(maps.Keys(all))); similar != "" {
				text += "; did you mean " + similar + "?"
			}
			errs = append(errs, fmt.Errorf("featureGates (--feature-gates): %s: %s", name, text))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		g, on := all[name], values[name]
		if on == g.preset {
			continue
		}
		label := fmt.Sprintf("featureGates (--feature-gates): %s: %t", name, on)
		switch user := c.user(name); {
		case g.class == lockedGate:
			errs = append(errs, fmt.Errorf("%s is not possible: Kubernetes v1.36 locks it to %t", label, g.preset))
		case g.class == refusedGate:
			errs = append(errs, fmt.Errorf("%s is not supported: %s", label, gateReasons[name]))
		case g.class == tiedGate && user != "":
			errs = append(errs, fmt.Errorf("%s contradicts %s", label, user))
		case g.class == onGate && !on && user != "":
			c.Warnings = append(c.Warnings, label+" has no effect: the feature is always on")
		case g.class == offGate && on && user != "":
			c.Warnings = append(c.Warnings, label+" has no effect: this kubelet lacks the feature")
		}
	}
	return errs
}

// Enabled reports whether a gate is on.
func (c *Config) Enabled(gate string) bool { return gateValues(&c.Kubelet)[gate] }

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
	all, values := gates(), gateValues(&c.Kubelet)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, Gate{name, all[name].stage, values[name]})
	}
	return out
}
