{{/*
The objects of the chart are the manifests that kustomize applies, read from manifests/. Nothing of them is written here a second time:
templates only do what kustomize does (namespace, labels, generated ConfigMaps, patches), and set the values.
*/}}

{{/* wharfinger.objects: the objects of a kustomization's `resources`, as {items: […]}. Takes (dict "root" $ "folder" "manifests/base"). */}}
{{- define "wharfinger.objects" -}}
{{- $items := list -}}
{{- $kustomization := include "wharfinger.read" (dict "root" .root "path" (printf "%s/kustomization.yaml" .folder)) | fromYaml -}}
{{- range $resource := $kustomization.resources -}}
{{- if hasSuffix ".yaml" $resource -}}
{{- range $text := regexSplit "(?m)^---$" (include "wharfinger.read" (dict "root" $.root "path" (printf "%s/%s" $.folder $resource))) -1 -}}
{{- $object := fromYaml $text -}}
{{- if $object.kind }}{{ $items = append $items $object }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "items" $items | toYaml -}}
{{- end -}}

{{/* wharfinger.read: the text of a file, with the namespace of the release. */}}
{{- define "wharfinger.read" -}}
{{- .root.Files.Get .path | replace "wharfinger-system" .root.Release.Namespace -}}
{{- end -}}

{{/* wharfinger.components: the names of the components that the values ask for, as {items: […]}. */}}
{{- define "wharfinger.components" -}}
{{- $chosen := list -}}
{{- if .Values.admission.enabled }}{{ $chosen = append $chosen "admission" }}{{ end -}}
{{- if and .Values.admission.enabled .Values.admission.certManager }}{{ $chosen = append $chosen "cert-manager" }}{{ end -}}
{{- if .Values.policyApps.enabled }}{{ $chosen = append $chosen "policy-apps" }}{{ end -}}
{{- if .Values.signals.enabled }}{{ $chosen = append $chosen "signals" }}{{ end -}}
{{- if .Values.monitoring.serviceMonitor }}{{ $chosen = append $chosen "service-monitor" }}{{ end -}}
{{- if .Values.monitoring.alerts }}{{ $chosen = append $chosen "alerts" }}{{ end -}}
{{- dict "items" $chosen | toYaml -}}
{{- end -}}

{{/* wharfinger.settings: the text of wharf.yaml. */}}
{{- define "wharfinger.settings" -}}
{{- $text := include "wharfinger.read" (dict "root" . "path" "manifests/base/wharf.yaml") -}}
{{- if .Values.settings -}}
{{- mergeOverwrite (fromYaml $text) .Values.settings | toYaml }}
{{ else -}}
{{- $text -}}
{{- end -}}
{{- end -}}

{{/* wharfinger.image: the reference of the image. */}}
{{- define "wharfinger.image" -}}
{{- $repository := required "image.repository is not set: there is no published image, deploy/Containerfile builds one" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* wharfinger.deployment: the Deployment with the values. Takes (dict "root" $ "object" the Deployment of the base). */}}
{{- define "wharfinger.deployment" -}}
{{- $values := .root.Values -}}
{{- $deployment := .object -}}
{{- $pod := $deployment.spec.template.spec -}}
{{- $container := index $pod.containers 0 -}}
{{- $_ := set $deployment.spec "replicas" $values.replicas -}}
{{- $_ := set $deployment.spec.template.metadata.annotations "checksum/settings" (include "wharfinger.settings" .root | sha256sum) -}}
{{- $_ := set $container "image" (include "wharfinger.image" .root) -}}
{{- $_ := set $container "resources" $values.resources -}}
{{- $_ := set $pod "priorityClassName" $values.priorityClassName -}}
{{- $settings := include "wharfinger.settings" .root | fromYaml -}}
{{- range $name, $value := dict "nodeSelector" $values.nodeSelector "tolerations" $values.tolerations "imagePullSecrets" $values.image.pullSecrets -}}
{{- if $value }}{{ $_ := set $pod $name $value }}{{ end -}}
{{- end -}}
{{- if $values.admission.enabled -}}
{{- range $add := include "wharfinger.read" (dict "root" $.root "path" "manifests/components/admission/deployment-patch.yaml") | fromYamlArray -}}
{{- $list := splitList "/" (trimSuffix "/-" $add.path) | last -}}
{{- $owner := ternary $container $pod (contains "/containers/0/" $add.path) -}}
{{- $_ := set $owner $list (append (index $owner $list) $add.value) -}}
{{- end -}}
{{- if $values.admission.anyCaller -}}
{{- $args := list -}}
{{- range $container.args }}{{ $args = append $args (ternary "--admission-any-caller" . (hasPrefix "--admission-client-ca=" .)) }}{{ end -}}
{{- $_ := set $container "args" $args -}}
{{- end -}}
{{- end -}}
{{- $ports := dict "http" $settings.port "admission" (dig "admission" "port" nil $settings) -}}
{{- range $port := $container.ports -}}
{{- with index $ports $port.name }}{{ $_ := set $port "containerPort" . }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* wharfinger.refusals: ends the rendering for values that the schema accepts and that cannot be meant. */}}
{{- define "wharfinger.refusals" -}}
{{- range $name, $text := .Values.policies -}}
{{- if not (and (kindIs "string" $text) (regexMatch "^[-_a-zA-Z0-9][-._a-zA-Z0-9]*\\.policy$" $name)) -}}
{{- fail (printf "policies: %s is not the file name of a policy, such as gold.policy, with a text; in --set and --set-file a backslash stands before the dot: 'policies.gold\\.policy=gold.policy'" $name) -}}
{{- end -}}
{{- end -}}
{{- range $name := list "anyCaller" "certManager" -}}
{{- if and (index $.Values.admission $name) (not $.Values.admission.enabled) -}}
{{- fail (printf "admission.%s is for the webhook, and there is none: set admission.enabled too" $name) -}}
{{- end -}}
{{- end -}}
{{- $settings := include "wharfinger.settings" . | fromYaml -}}
{{- if and (gt (int .Values.replicas) 1) (not (dig "leaderElection" "leaderElect" true $settings)) -}}
{{- fail "settings.leaderElection.leaderElect is false, so every replica would place pods: set replicas to 1" -}}
{{- end -}}
{{- if not (int $settings.port) -}}
{{- fail "settings.port is 0, so there would be nothing for the probes to ask" -}}
{{- end -}}
{{- end -}}
