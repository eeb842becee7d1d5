package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An unsupported value of a gate is an error with the name and the reason.
func TestFeatureGates(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		args []string
		want []string
	}{
		"defaults":            {file: "featureGates: {MemoryQoS: false, NodeSwap: true, PodLevelResources: true}"},
		"of other components": {args: []string{"--feature-gates=APIServingWithRoutine=true"}},
		"what it always does": {args: []string{"--feature-gates", "EventedPLEG=true, ClusterTrustBundleProjection=true,"}},
		"what it never does":  {args: []string{"--feature-gates=GracefulNodeShutdown=false"}},
		"unknown":             {file: "featureGates: {Bogus: true}", want: []string{"featureGates (--feature-gates): Bogus is no feature gate"}},
		"unknown on the flag": {args: []string{"--feature-gates=Bogus=false"}, want: []string{"--feature-gates", "Bogus"}},
		"locked":              {args: []string{"--feature-gates=NodeSwap=false"}, want: []string{"(--feature-gates): NodeSwap is locked to true"}},
		"not built":           {args: []string{"--feature-gates=MemoryQoS=true"}, want: []string{"MemoryQoS true asks for behaviour that this kubelet does not have"}},
		"all that are not":    {args: []string{"--feature-gates=AllAlpha=true"}, want: []string{"AllAlpha true asks"}},
		"not to be done without": {args: []string{"--feature-gates=ContainerRestartRules=false"},
			want: []string{"ContainerRestartRules false asks to do without behaviour"}},
		"resizes that it does": {args: []string{"--feature-gates=InPlacePodLevelResourcesVerticalScaling=false,InPlacePodVerticalScalingInitContainers=false"},
			want: []string{"InPlacePodLevelResourcesVerticalScaling false asks to do without", "InPlacePodVerticalScalingInitContainers false asks to do without"}},
		"no value":     {args: []string{"--feature-gates=NodeSwap"}, want: []string{`--feature-gates: "NodeSwap" is not key=value`}},
		"not a switch": {args: []string{"--feature-gates=NodeSwap=yes"}, want: []string{`NodeSwap: "yes" is neither true nor false`}},
		"all at once":  {args: []string{"--feature-gates=MemoryQoS=true,Bogus=true"}, want: []string{"MemoryQoS", "Bogus"}},
	} {
		_, err := withFile(t, c.file, c.args...)
		if len(c.want) == 0 {
			require.NoError(t, err, name)
		}
		for _, text := range c.want {
			require.ErrorContains(t, err, text, name)
		}
	}
}

// Each line has four words; the last two are from fixed sets.
func TestGateList(t *testing.T) {
	all := gates()
	require.Greater(t, len(all), 200)
	for name, g := range all {
		require.Contains(t, []string{lockedGate, alwaysGate, neverGate, freeGate}, g.kind, name)
		require.Empty(t, g.why(g.preset), name)
		require.Contains(t, []string{"ALPHA", "BETA", "GA", "DEPRECATED"}, g.stage, name)
	}
}

func TestGatesAsTheyAreSet(t *testing.T) {
	c := Default()
	c.Kubelet.FeatureGates = map[string]bool{"APIServerIdentity": false, "APIServingWithRoutine": true}
	all := c.Gates()
	require.Len(t, all, len(gates()))
	require.Equal(t, []Gate{{"APIResponseCompression", "BETA", true}, {"APIServerIdentity", "BETA", false}, {"APIServerTracing", "GA", true}, {"APIServingWithRoutine", "ALPHA", true}}, all[:4])
}
