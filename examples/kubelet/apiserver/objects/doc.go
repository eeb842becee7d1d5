// Package objects reads from an API server the objects that pods reference: config maps, secrets,
// tokens of service accounts, trust bundles, services for environments, runtime classes, and
// claims, volumes, drivers and attachments for volumes. Objects implements interfaces of
// volume/objects, volume/claims, volume/csi and cri/pods/request.
//
//	o, err := objects.New(objects.Config{Client: client, OnChange: onChange})
//	go o.Run(ctx)
//	secret, err := o.Secret(ctx, "default", "password")
//	o.Keep(pods, volumes) // periodically: ends the watches of unreferenced objects
//
// # One watch for an object
//
// Each config map and each secret has a watch of its own, because a node may not read others. The
// watch starts with the first request, serves all pods that reference the object, and ends when
// none does (Keep). An immutable object is read once and not watched. The first request waits for
// the object for up to a second. While the server is unavailable, the last seen object stays.
//
// Services, runtime classes, CSI drivers and trust bundles are few, or readable by every node: each
// kind has one watch. The watch of services starts with Run, the others with the first request.
//
// Claims, volumes and attachments are read at each request, so that a claim that was just bound is
// bound.
package objects
