// Package objects reads from an API server what pods refer to: config maps and secrets,
// tokens of service accounts, trust bundles, services for environments, runtime classes,
// and claims, volumes, drivers and attachments for volumes. Objects has the methods that
// the rooms of podwright ask for (volume/objects, volume/claims, volume/csi,
// cri/pods/request).
//
//	o, err := objects.New(objects.Config{Client: client, OnChange: manager.Changed})
//	go o.Run(ctx)
//	secret, err := o.Secret(ctx, "default", "password")
//	o.Keep(pods) // now and then: what none of these refers to is not watched any longer
//
// # One watch for an object
//
// Each config map and each secret has a watch of its own, since a node may not read
// others. It begins when the object is asked for first, serves all pods that refer to it,
// and ends when none does (Keep). An immutable object is read once and not watched. An
// object that is not known yet is waited for, a second at most; while the server is away
// the last one that was seen stays.
//
// Services, runtime classes, CSI drivers and trust bundles are few or may be read by every
// node: one watch of each kind. That of the services begins with Run, the others when they
// are asked for.
//
// Claims, volumes and attachments are read each time they are asked for: a claim that was
// bound a moment ago is bound.
package objects
