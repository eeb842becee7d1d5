package config

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// gateList contains the feature gates of Kubernetes v1.36: name, default, kind (the values
// allowed here) and stage.
//
//go:embed gatelist.txt
var gateList string

// The kinds of gates, by their allowed values.
const (
	lockedGate = "locked" // the preset only, as upstream
	alwaysGate = "always" // also true: the kubelet always has the feature
	neverGate  = "never"  // also false: the kubelet lacks the feature
	freeGate   = "free"   // both: it belongs to another component, or has an effect here
)

type gate struct {
	preset bool
	kind   string
	stage  string
}

func gates() map[string]gate {
	all := map[string]gate{}
	for line := range strings.Lines(gateList) {
		if f := strings.Fields(line); len(f) == 4 {
			all[f[0]] = gate{preset: f[1] == "true", kind: f[2], stage: f[3]}
		}
	}
	return all
}

// why returns the reason why a gate cannot have a value, or "" if it can.
func (g gate) why(value bool) string {
	switch {
	case value == g.preset, g.kind == freeGate, g.kind == alwaysGate && value, g.kind == neverGate && !value:
		return ""
	case g.kind == lockedGate:
		return fmt.Sprintf("is locked to %t", g.preset)
	case value:
		return "true asks for behaviour that this kubelet does not have"
	default:
		return "false asks to do without behaviour that this kubelet always has"
	}
}

// gates checks the feature gates. Gates of other components are accepted, because clusters often
// give one list to all components.
func (p *problems) gates(k *kubeletv1beta1.KubeletConfiguration) {
	known := gates()
	for _, name := range slices.Sorted(maps.Keys(k.FeatureGates)) {
		why := "is no feature gate of Kubernetes v1.36"
		if g, ok := known[name]; ok {
			why = g.why(k.FeatureGates[name])
		}
		p.refuse(why != "", "featureGates (--feature-gates): %s %s", name, why)
	}
}
