SELECT CASE preferred_role WHEN 'p' THEN 'primary' ELSE 'mirror' END, count(CASE WHEN status = 'd' THEN 1 END) FROM gp_segment_configuration
 GROUP BY 1
