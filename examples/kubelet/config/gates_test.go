package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A value of a gate is accepted, accepted with a warning, or an error with the name and the reason.
// A value that changes no behaviour under the configuration causes neither.
func TestFeatureGates(t *testing.T) {
	const none, all = "", "featureGates (--feature-gates): "
	for name, c := range map[string]struct {
		file          string
		args          []string
		warning, fail string
	}{
		"defaults":              {file: "featureGates: {MemoryQoS: false, NodeSwap: true, PodLevelResources: true}"},
		"of other components":   {args: []string{"--feature-gates=APIServingWithRoutine=true"}},
		"features that are on":  {args: []string{"--feature-gates", "EventedPLEG=true, ClusterTrustBundleProjection=true,"}},
		"no CPU manager":        {args: []string{"--feature-gates=CPUManagerPolicyAlphaOptions=true"}},
		"user namespace":        {args: []string{"--feature-gates=KubeletInUserNamespace=true"}},
		"GA at its value":       {args: []string{"--feature-gates=SidecarContainers=true,RetryGenerateName=true,CustomCPUCFSQuotaPeriod=false"}},
		"shutdown, unused":      {args: []string{"--feature-gates=GracefulNodeShutdown=false,GracefulNodeShutdownBasedOnPodPriority=false"}},
		"shutdown":              {file: "featureGates: {GracefulNodeShutdown: false}\nshutdownGracePeriod: 30s", fail: all + "GracefulNodeShutdown: false contradicts shutdownGracePeriod"},
		"shutdown by priority":  {file: "featureGates: {GracefulNodeShutdownBasedOnPodPriority: false}\nshutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 1}]", fail: "contradicts shutdownGracePeriodByPodPriority"},
		"server certificate":    {args: []string{"--feature-gates=RotateKubeletServerCertificate=false"}},
		"rotated certificate":   {file: "featureGates: {RotateKubeletServerCertificate: false}\nserverTLSBootstrap: true", args: []string{"--kubeconfig=/k"}, fail: all + "RotateKubeletServerCertificate: false contradicts serverTLSBootstrap"},
		"back-off":              {file: "featureGates: {KubeletCrashLoopBackOffMax: false}\ncrashLoopBackOff: {maxContainerRestartPeriod: 9s}", fail: "contradicts crashLoopBackOff.maxContainerRestartPeriod"},
		"reserved for classes":  {file: "featureGates: {QOSReserved: true}\nqosReserved: {memory: 50%}", fail: "QOSReserved: true contradicts qosReserved"},
		"CA file":               {args: []string{"--feature-gates=ReloadKubeletClientCAFile=false"}},
		"CA file in use":        {args: []string{"--kubeconfig=/k", "--client-ca-file=/ca", "--feature-gates=ReloadKubeletClientCAFile=false"}, warning: all + "ReloadKubeletClientCAFile: false has no effect: the feature is always on"},
		"always on":             {args: []string{"--feature-gates=ContainerRestartRules=false"}, warning: all + "ContainerRestartRules: false has no effect: the feature is always on"},
		"not supported":         {args: []string{"--feature-gates=PodsAPI=true"}, warning: all + "PodsAPI: true has no effect: this kubelet lacks the feature"},
		"off as it is":          {args: []string{"--feature-gates=ResourceHealthStatus=false"}},
		"unknown":               {file: "featureGates: {Bogus: true}", fail: all + "Bogus: not a feature gate of Kubernetes v1.36"},
		"misspelt":              {args: []string{"--feature-gates=NodeSwop=false"}, fail: "NodeSwop: not a feature gate of Kubernetes v1.36; did you mean NodeSwap?"},
		"locked":                {args: []string{"--feature-gates=NodeSwap=false"}, fail: all + "NodeSwap: false is not possible: Kubernetes v1.36 locks it to true"},
		"locked sidecars":       {args: []string{"--feature-gates=SidecarContainers=false"}, fail: "SidecarContainers: false is not possible"},
		"isolation":             {args: []string{"--feature-gates=MemoryQoS=true"}, fail: all + "MemoryQoS: true is not supported: this kubelet sets neither"},
		"isolation, by stage":   {args: []string{"--feature-gates=AllAlpha=true"}, fail: "MemoryQoS: true is not supported"},
		"by stage, with limits": {args: []string{"--feature-gates=AllAlpha=true,MemoryQoS=false"}, warning: "PodsAPI: true has no effect"},
		"no value":              {args: []string{"--feature-gates=NodeSwap"}, fail: `--feature-gates: "NodeSwap" is not key=value`},
		"not a switch":          {args: []string{"--feature-gates=NodeSwap=yes"}, fail: `NodeSwap: "yes" is not true or false`},
	} {
		got, err := withFile(t, c.file, c.args...)
		switch {
		case c.fail != none:
			require.ErrorContains(t, err, c.fail, name)
		case c.warning != none:
			require.NoError(t, err, name)
			require.Contains(t, joined(got.Warnings, func(w string) string { return w }), c.warning, name)
		default:
			require.NoError(t, err, name)
			require.Empty(t, got.Warnings, name)
		}
	}
	_, err := withFile(t, "", "--feature-gates=MemoryQoS=true,Bogus=true")
	require.ErrorContains(t, err, "MemoryQoS")
	require.ErrorContains(t, err, "Bogus")
}

func TestGateValues(t *testing.T) {
	c := Default()
	c.Kubelet.FeatureGates = map[string]bool{"APIServerIdentity": false, "APIServingWithRoutine": true}
	all := c.Gates()
	require.Len(t, all, len(gates()))
	require.Equal(t, []Gate{{"APIResponseCompression", "BETA", true}, {"APIServerIdentity", "BETA", false}, {"APIServerTracing", "GA", true}, {"APIServingWithRoutine", "ALPHA", true}}, all[:4])
	c.Kubelet.FeatureGates = map[string]bool{"AllBeta": false, ComponentStatusz: true}
	require.Equal(t, []bool{false, true, true}, []bool{c.Enabled(ComponentFlagz), c.Enabled(ComponentStatusz), c.Enabled("NodeSwap")})
}

// Without verification of pulled images the default policy verifies none.
func TestUnverifiedImages(t *testing.T) {
	for gate, want := range map[string]string{"true": "NeverVerifyPreloadedImages", "false": "NeverVerify"} {
		c, err := withFile(t, "", "--feature-gates=KubeletEnsureSecretPulledImages="+gate)
		require.NoError(t, err)
		require.EqualValues(t, want, c.Kubelet.ImagePullCredentialsVerificationPolicy)
	}
}
