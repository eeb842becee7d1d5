package main

import v1 "k8s.io/api/core/v1"

// setDefaults sets the defaults of an API server that kubelets depend on.
func setDefaults(pod *v1.Pod) {
	spec := &pod.Spec
	setDefault(&spec.RestartPolicy, v1.RestartPolicyAlways)
	setDefault(&spec.DNSPolicy, v1.DNSClusterFirst)
	setDefault(&spec.ServiceAccountName, "default")
	setDefault(&spec.SchedulerName, v1.DefaultSchedulerName)
	if spec.EnableServiceLinks == nil {
		spec.EnableServiceLinks = new(true)
	}
	if spec.TerminationGracePeriodSeconds == nil {
		spec.TerminationGracePeriodSeconds = new(int64(30))
	}
	if spec.SecurityContext == nil {
		spec.SecurityContext = &v1.PodSecurityContext{}
	}
	for i := range spec.Volumes {
		setVolumeDefaults(&spec.Volumes[i].VolumeSource)
	}
	for i := range spec.InitContainers {
		setContainerDefaults(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		setContainerDefaults(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		c := v1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		setContainerDefaults(&c)
		spec.EphemeralContainers[i].EphemeralContainerCommon = v1.EphemeralContainerCommon(c)
	}
}

func setContainerDefaults(c *v1.Container) {
	setDefault(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	setDefault(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	setDefault(&c.ImagePullPolicy, v1.PullIfNotPresent)
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			setDefault(&from.FieldRef.APIVersion, "v1")
		}
	}
	for i := range c.Ports {
		setDefault(&c.Ports[i].Protocol, v1.ProtocolTCP)
	}
}

func setVolumeDefaults(v *v1.VolumeSource) {
	switch {
	case v.ConfigMap != nil && v.ConfigMap.DefaultMode == nil:
		v.ConfigMap.DefaultMode = new(v1.ConfigMapVolumeSourceDefaultMode)
	case v.Secret != nil && v.Secret.DefaultMode == nil:
		v.Secret.DefaultMode = new(v1.SecretVolumeSourceDefaultMode)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
