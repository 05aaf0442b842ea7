" Made from the grammar of the language: change that, then `make docs`.
if exists("b:current_syntax")
  finish
endif
syntax case match
syntax keyword policyConstants false true
highlight default link policyConstants Boolean
syntax keyword policyOperators and in matches not or
highlight default link policyOperators Operator
syntax keyword policyChoices else if then
highlight default link policyChoices Conditional
syntax keyword policyDeclarations avoid base filter for import let metric param permit policy preemption prefer quantum score test tie_break workload
highlight default link policyDeclarations Statement
syntax keyword policySteps accepted age at by device evicted expect held like message on pending place rejected running scores
highlight default link policySteps Keyword
syntax keyword policyKeywords as asc desc devices disruption kubernetes min_count missing never_evict normalize only_evict placed pods preferred range reject require required reserve spread_over tier timeout together version weight when where with within
highlight default link policyKeywords Keyword
syntax keyword policySubjects group it node pod
highlight default link policySubjects Identifier
syntax keyword policyPlugins DynamicResources ImageLocality InterPodAffinity NodeAffinity NodeResourcesBalancedAllocation NodeResourcesFit PodTopologySpread TaintToleration
highlight default link policyPlugins Type
syntax match policyMember ~\.\@1<!\.\s*\h\w*~
highlight default link policyMember Identifier
syntax match policyKey ~\<\h\w*\>\ze\s*:~
highlight default link policyKey Identifier
syntax match policyFunction ~\<\%(topology_spread_points\|node_affinity_matches\|node_affinity_points\|balanced_allocation\|fragmentation_after\|image_bytes_present\|pod_affinity_points\|fragmentation_with\|untolerated_taints\|version_at_least\|least_allocated\|unseen_requests\|version_compare\|most_allocated\|fragmentation\|matches_regex\|taint_points\|metrics_api\|share_after\|starts_with\|taint_value\|time_of_day\|prometheus\|ends_with\|has_taint\|tolerates\|contains\|quantity\|sigmoid\|weekday\|number\|semver\|spread\|taints\|clamp\|count\|curve\|floor\|lower\|ratio\|round\|upper\|ceil\|hash\|sqrt\|abs\|age\|avg\|exp\|has\|log\|max\|min\|sum\)\ze\s*(~
highlight default link policyFunction Function
syntax match policyNumber ~\<\d\+\%(\.\d\+\)\=\%([eE][+-]\=\d\+\)\=\%(cpu\|min\|Ei\|Gi\|Ki\|Mi\|Pi\|Ti\|ms\|%\|B\|E\|G\|M\|P\|T\|d\|h\|k\|m\|s\)\=~
highlight default link policyNumber Number
syntax match policyAnnotation ~@\s*\h\w*~
highlight default link policyAnnotation PreProc
syntax match policyComment ~#.*$~
highlight default link policyComment Comment
syntax region policyString start=~"~ skip=~\\.~ end=~"~ oneline
syntax region policyString start=~'~ skip=~\\.~ end=~'~ oneline
highlight default link policyString String
setlocal commentstring=#\ %s
let b:current_syntax = "policy"
